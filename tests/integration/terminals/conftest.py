"""Fixtures of the terminal tests."""

from __future__ import annotations

import pytest

from tests.integration.terminals.held import holding


@pytest.fixture
def held(tmp_path):
    yield from holding(tmp_path / "terminals")
