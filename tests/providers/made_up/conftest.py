"""The stage of every test here; corral's own directories are throw-away too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from corral.providers.contract import Provider
from tests.providers.made_up.stage import Stage, registered


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.environ["PATH"])  # a program that a test installs goes with it
    for name in ("STATE", "CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"CORRAL_{name}_DIR", str(tmp_path / name.lower()))
    stage = Stage(tmp_path)
    yield stage
    stage.end()


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Callable[[Provider], Provider]]:
    """Puts a provider beside the built-in ones for the time of a test."""
    with ExitStack() as until_the_end:
        yield lambda provider: until_the_end.enter_context(registered(provider, tmp_path / "providers"))
