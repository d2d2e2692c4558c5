"""Where a CLI takes hooks, as data: the provider says it, the installer does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import Struct


class ConfigFormat(StrEnum):
    """How hooks are written in a configuration."""

    TOML_HOOKS = "toml-hooks"
    """`[[hooks]]` tables, each with an event and a command."""
    JSON_HOOKS = "json-hooks"
    """`{"hooks": {EVENT: [{"hooks": [{"type": "command", "command": …}]}]}}`, comments allowed."""
    OWN_FILE = "own-file"
    """A file that is all ours, in whatever dialect: `write_own` makes its text."""


class LaterEvent(Struct, frozen=True, kw_only=True):
    """An event that only newer versions know. An older one might ignore all hooks because of it."""

    event: str
    since: tuple[int, ...]


class Heartbeat(Struct, frozen=True, kw_only=True):
    """An event that a session reports again and again for as long as it is open."""

    event: str
    every_s: float


class HookRules(Struct, frozen=True, kw_only=True):
    """What the CLI accepts, by its own rules. One entry that breaks them, anybody's, stops all hooks."""

    events: tuple[str, ...]
    fields: tuple[str, ...] | None = None
    """The only fields that an entry may have; None where others are ignored."""
    longest_timeout_s: int
    largest_number: int | None = None
    """A whole number beyond it, anywhere in the configuration, makes all of it unreadable; None: any may be there."""
    coerces: bool = False
    """A timeout may also be written as text."""
    effect: str
    """What the CLI does then: "so none runs"."""


class HookTarget(Struct, frozen=True, kw_only=True):
    """What `corral hooks` has to know of one CLI."""

    provider: str
    config_name: str
    """The configuration's file name in the home; a file of our own may be in a directory below it."""
    format: ConfigFormat
    events: tuple[str, ...]
    """What every version that takes hooks knows."""
    later_events: tuple[LaterEvent, ...] = ()
    """Asked for only if all versions that PATH leads to are known to have them."""
    commands: tuple[str, ...] = ()
    """Its names on PATH; needed only where there are later events."""
    product: str = ""
    """Its name in the registry it is published in: others may have a command of the same name."""
    heartbeat: Heartbeat | None = None
    """None where the CLI has none."""
    rules: HookRules | None = None
    """None where the CLI skips an entry that it can't use, and runs the others."""
    write_own: Callable[[Mapping[str, str]], str] | None = None
    """Of a file of our own: its text, given the command line for each event, to be written as a JSON string."""
