"""Commands in this process, with directories of corral's own in a throw-away place."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"CORRAL_{name}_DIR", str(tmp_path / name.lower()))
    (tmp_path / "config").mkdir()
    return tmp_path


@pytest.fixture
def set_config(own_directories: Path):
    return (own_directories / "config" / "config.toml").write_text
