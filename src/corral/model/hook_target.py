"""Where a CLI takes hooks, as data: the provider says it, the installer does it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class ConfigFormat(StrEnum):
    """How hooks are written in a configuration."""

    TOML_HOOKS = "toml-hooks"
    """`[[hooks]]` tables, each with an event and a command."""
    JSON_HOOKS = "json-hooks"
    """`{"hooks": {EVENT: [{"hooks": [{"type": "command", "command": …}]}]}}`, comments allowed."""


class LaterEvent(Struct, frozen=True, kw_only=True):
    """An event that only newer versions know. An older one might ignore all hooks because of it."""

    event: str
    since: tuple[int, ...]


class HookTarget(Struct, frozen=True, kw_only=True):
    """What `corral hooks` has to know of one CLI."""

    provider: str
    config_name: str
    """The configuration's file name in the home."""
    format: ConfigFormat
    events: tuple[str, ...]
    """What every version that takes hooks knows."""
    later_events: tuple[LaterEvent, ...] = ()
    """Asked for only if all versions that PATH leads to are known to have them."""
    commands: tuple[str, ...] = ()
    """Its names on PATH; needed only where there are later events."""
    product: str = ""
    """Its name in the registry it is published in: others may have a command of the same name."""
