"""Fixtures of the provider tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers.qwen_support import FIXTURES, Place

# What asserts outside of test files should say as much as what asserts in them.
pytest.register_assert_rewrite("tests.providers.kimi_usage_support")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A copy of Qwen Code's fixture home, and what corral reads in it."""
    shutil.copytree(FIXTURES, tmp_path / ".qwen")
    return Place(tmp_path / ".qwen")


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that a test has started; they end with it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
