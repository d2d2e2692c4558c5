"""Fixtures of the provider tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers import claude_support
from tests.providers.qwen_support import FIXTURES, Place

# What asserts outside of test files should say as much as what asserts in them.
pytest.register_assert_rewrite("tests.providers.kimi_usage_support")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A copy of Qwen Code's fixture home, and what corral reads in it."""
    shutil.copytree(FIXTURES, tmp_path / ".qwen")
    return Place(tmp_path / ".qwen")


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> claude_support.Place:
    """A copy of Claude Code's fixture home, which is the home in force."""
    root = Path(os.path.realpath(tmp_path)) / ".claude"
    shutil.copytree(claude_support.FIXTURES, root)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(root))
    return claude_support.Place(root)


@pytest.fixture
def claude_runs(tmp_path: Path, claude: claude_support.Place) -> Iterator[claude_support.Runs]:
    """Processes that look like Claude's in that home."""
    (tmp_path / "run").mkdir()
    runs = claude_support.Runs(Path(os.path.realpath(tmp_path)) / "run", claude.root)
    yield runs
    runs.stop()


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that a test has started; they end with it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
