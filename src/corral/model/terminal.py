"""A terminal that corral keeps, as its files and its processes say."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.sidecar.identity import ProcessIdentity


class Standing(StrEnum):
    """What is true of a terminal."""

    RUNNING = "running"
    """Its holder is there."""
    ENDED = "ended"
    """Its program has ended; `status` says how, once it is on disk."""
    LOST = "lost"
    """Its holder died without saying how the program ended, or whether it did."""
    ELSEWHERE = "elsewhere"
    """Another host's, or another PID namespace's: can't be checked from here."""


class Terminal(Struct, frozen=True, kw_only=True):
    """One terminal as its files and its processes say."""

    tab: str
    standing: Standing
    holder: ProcessIdentity | None
    """None of one that has ended and left."""
    child: ProcessIdentity
    """The program that was started in it."""
    started_at: float | None = None
    status: int | None = None
    """The exit code, or the negative signal."""
    ended_at: float | None = None
