"""Which CLIs take hooks of ours: their configuration, its format, and the events that each version knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from msgspec import Struct

from corral.hooks.edit import Entry

PROVIDERS = ("kimi-cli", "kimi-code", "qwen-code")
_EVENTS = ("SessionStart", "SessionEnd")
_HEARTBEAT_SINCE = (2, 1, 0)
"""kimi-code 2.1.0 knows SessionHeartbeat. A version that does not would ignore every hook (seen 2026-11)."""


class Format(Struct, frozen=True):
    """How a configuration is edited. Each function works on the text and touches nothing else."""

    find_entries: Callable[[str], list[Entry]]
    add_entries: Callable[[str, Sequence[Entry]], str]
    remove_entries: Callable[[str, Sequence[str]], str]
    list_missing: Callable[[str, Sequence[Entry]], tuple[str, ...]]
    new_text: Callable[[Sequence[Entry]], str]
    find_switch_off: Callable[[str], str | None]


def format_of(provider: str) -> Format:
    """The format of that provider's configuration."""
    module: ModuleType
    if provider == "qwen-code":
        from corral.hooks import json_config as module
    else:
        from corral.hooks import toml_config as module
    return Format(
        module.find_entries,
        module.add_entries,
        module.remove_entries,
        module.list_missing,
        module.new_text,
        module.find_switch_off,
    )


def config_path(provider: str, home: str) -> str:
    return os.path.join(home, "settings.json" if provider == "qwen-code" else "config.toml")


def default_home(provider: str) -> str:
    """The data root in force here and now: its variable, else the default one."""
    from corral.hooks.session_place import find_home

    return find_home(provider, str(Path.cwd()))


def events_for(provider: str, versions: Sequence[str]) -> tuple[str, ...]:
    """The events to ask for, given the versions of the CLI that are installed, as far as they are known."""
    if provider == "kimi-code" and versions and all(_is_proven(version) for version in versions):
        return (*_EVENTS, "SessionHeartbeat")
    return _EVENTS


def list_versions(provider: str, path_variable: str) -> list[str]:
    """The versions of a CLI that PATH leads to, told from their files."""
    from corral.system.programs import find_on_path, identify

    if provider != "kimi-code":
        return []
    found = (identify(path) for path in find_on_path("kimi", path_variable))
    return [program.version for program in found if program and program.product == "@moonshot-ai/kimi-code"]


def _is_proven(version: str) -> bool:
    numbers = version.split("-")[0].split(".")
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= _HEARTBEAT_SINCE
