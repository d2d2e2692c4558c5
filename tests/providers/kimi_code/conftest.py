"""A copy of the tree that kimi-code leaves, for a test to spoil."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.providers.kimi_code.support import BUCKET
from tests.providers.kimi_support import copy_fixture


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copy_fixture("kimi-code", tmp_path / "dot-kimi-code")


@pytest.fixture
def bucket(tree: Path) -> Path:
    return tree / "sessions" / BUCKET
