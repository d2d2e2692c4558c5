"""What became of an installation of our hooks, or of its removal."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Outcome(StrEnum):
    INSTALLED = "installed"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    BROKEN = "broken"
    """Our entries are in, and the CLI runs none: it does not accept the configuration."""
    REFUSED = "refused"


class Done(Struct, frozen=True, kw_only=True):
    """What became of one home."""

    provider: str
    home: str
    config_path: str
    outcome: Outcome
    message: str
    backup: str | None = None
