"""How a target is served: the functions that edit its format, and the events that its versions know."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import assert_never

from msgspec import Struct

from corral.hooks.edit.entries import Entry
from corral.model.hook_target import ConfigFormat, HookTarget


class Format(Struct, frozen=True):
    """How a configuration is edited. Each function works on the text and touches nothing else.

    Where nothing is left after our entries were taken out, there is no file either if it was all ours.
    """

    find_entries: Callable[[str], list[Entry]]
    add_entries: Callable[[str, Sequence[Entry]], str]
    remove_entries: Callable[[str, Sequence[str]], str]
    list_missing: Callable[[str, Sequence[Entry]], tuple[str, ...]]
    new_text: Callable[[Sequence[Entry]], str]
    find_switch_off: Callable[[str], str | None]
    is_ours: bool = False
    """The whole file is."""


def format_of(kind: ConfigFormat, target: HookTarget) -> Format:
    """How this kind of configuration of that target is edited. Raises EditRefused."""
    match kind:
        case ConfigFormat.TOML_HOOKS:
            from corral.hooks.edit import toml_config as module
        case ConfigFormat.JSON_HOOKS:
            from corral.hooks.edit import json_config as module
        case ConfigFormat.OWN_FILE:
            from corral.hooks.edit.own_file import make_format

            return Format(*make_format(target.write_own), is_ours=True)
        case _:
            assert_never(kind)
    return Format(
        module.find_entries,
        module.add_entries,
        module.remove_entries,
        module.list_missing,
        module.new_text,
        module.find_switch_off,
    )


def find_rejection(target: HookTarget, text: str) -> str | None:
    """Why the CLI runs no hook of this configuration, by its own rules; None when it accepts it."""
    if target.rules is None:
        return None
    from corral.hooks.edit.toml_config import find_rejection as find_in_toml

    found = find_in_toml(text, target.rules)
    return f"{target.provider} rejects {found}, {target.rules.effect}" if found else None


def config_path(target: HookTarget, home: str) -> str:
    return os.path.join(home, target.config_name)


def events_for(target: HookTarget, versions: Sequence[str]) -> tuple[str, ...]:
    """The events to ask for, given the versions of the CLI that are installed, as far as they are known."""
    later = (
        event.event
        for event in target.later_events
        if versions and all(_is_proven(version, event.since) for version in versions)
    )
    return (*target.events, *later)


def list_versions(target: HookTarget, path_variable: str) -> list[str]:
    """The versions of the CLI that PATH leads to, told from their files; none where they make no difference."""
    from corral.providers.kit.programs import find_on_path, identify

    if not target.later_events:
        return []
    paths = (path for command in target.commands for path in find_on_path(command, path_variable))
    return [found.version for found in map(identify, paths) if found and found.product == target.product]


def _is_proven(version: str, since: tuple[int, ...]) -> bool:
    numbers = version.split("-")[0].split(".")
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= since
