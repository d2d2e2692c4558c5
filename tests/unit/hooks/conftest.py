"""A home with a configuration of a CLI, for the installer."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.hooks.settings import Setting
from corral.model.hook_target import HookTarget
from corral.providers.registry import find_provider


def target_of(provider: str) -> HookTarget:
    target = find_provider(provider).hooks()
    assert target
    return target


@pytest.fixture
def make(tmp_path):
    """A home with one configuration, or without any."""

    def build(provider: str, data: bytes | None, versions=()) -> Setting:
        home = tmp_path / "a home"
        home.mkdir(exist_ok=True)
        setting = Setting(
            target=target_of(provider),
            home=str(home),
            state_dir=str(tmp_path / "my state"),
            data_dir=str(tmp_path / "my data"),
            versions=versions,
        )
        if data is not None:
            Path(setting.config_path).write_bytes(data)
        return setting

    return build
