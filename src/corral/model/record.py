"""A session as its provider wrote it to disk. It says nothing about processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec import Struct

from corral.model.key import SessionKey


class TurnState(StrEnum):
    """What became of the last turn of a transcript."""

    NONE = "none"
    """There was no turn yet."""
    ENDED = "ended"
    OPEN = "open"
    """It began and its end was not written: busy while served, lost when not."""
    IN_TOOL = "in-tool"
    """It is open in a tool call that runs or waits for approval, and the provider does not say which."""
    WAITING = "waiting"
    """It is open, and the provider wrote that it waits for a person."""
    UNREADABLE = "unreadable"


class SidecarHint(Struct, frozen=True, gc=False):
    """That a runtime.json is beside the session, and what it said when it was last read. Not yet a claim."""

    path: str
    pid: int | None
    """None when it could not be read as a record, or must be looked at each time."""
    hostname: str | None


class SessionRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One session on disk. Times are epoch seconds; None means that the provider does not say."""

    provider: str
    home: str
    scope: str
    session_id: str
    path: str
    """The session's directory, or its transcript where it has no directory."""
    work_dir: str | None
    title: str | None
    created_at: float | None
    updated_at: float | None
    durable: bool
    """The provider has written what a resume needs."""
    turn: TurnState
    not_durable_reason: str | None = None
    turn_started_at: float | None = None
    unfinished: str | None = None
    """Of an open turn: what was asked, shortened to one line."""
    waits_for: str | None = None
    """Of a waiting turn: what the person is asked, shortened to one line."""
    recorded_at: float | None = None
    """When the newest record of its transcript was written, as that record itself says: no copy or touch moves it."""
    expires_at: float | None = None
    """When its CLI may delete it, by its age alone; None where it does not."""
    archived: bool = False
    sidecar: SidecarHint | None = None
    forked_from: str | None = None
    parent_id: str | None = None
    """Of a sub-agent that has a session of its own: the session that started it."""
    branch: str | None = None
    """Of git, as the provider recorded it last; never looked up in the directory."""
    notes: tuple[str, ...] = ()
    """Odd shapes worth a note: "migrated from kimi-cli …", "same id in another bucket"."""

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.provider, self.home, self.scope, self.session_id)


class Exchange(Struct, frozen=True, kw_only=True):
    """A prompt and what came of it, as the transcript has them; either may be missing at an end of it."""

    asked: str | None
    answered: str | None
    at: float | None = None
    """Epoch seconds of the prompt."""


class Resting(Struct, frozen=True):
    """The idle sessions of one directory in which nothing has changed since they were read.

    Most sessions of most people are such: they are counted, and made records of only when somebody asks.
    """

    ids: Sequence[str]
    load: Callable[[], Sequence[SessionRecord]]
    recorded_at: float = float("inf")
    """When the newest record of all was written, in epoch seconds; infinite when that is not known."""


class Skipped(Struct, frozen=True, kw_only=True):
    """Something foreign that could not be read as what it claims to be, and why. Never raised, never silent."""

    provider: str
    path: str
    reason: str
    offset: int | None = None
    hides_sessions: bool = False
    """It could hold any number of sessions: then the survey is not complete, and says so."""
