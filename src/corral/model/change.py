"""What happens to sessions while they are watched."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.model.key import SessionKey
from corral.model.session import AgentProcess, Degraded, Session


class Change(StrEnum):
    """Of one session."""

    APPEARED = "appeared"
    CHANGED = "changed"
    ENDED = "ended"
    """It was served, and no longer is."""
    GONE = "gone"
    """Nothing of it is on disk any more, and no process serves it."""


class SessionChange(Struct, frozen=True, kw_only=True):
    """One session as it is now; as it was last, if it is gone."""

    change: Change
    session: Session


class Switched(Struct, frozen=True, kw_only=True):
    """One process went over to another session (`/new`, `/clear`, `/resume` …)."""

    pid: int
    previous: SessionKey
    current: SessionKey


class AgentsChanged(Struct, frozen=True, kw_only=True):
    """Which running agents have no known session is different; these are all of them now."""

    unattributed: tuple[AgentProcess, ...]
    no_session_yet: tuple[AgentProcess, ...]


class Troubles(Struct, frozen=True):
    """What could not be read or watched has changed; these are all of it now."""

    degraded: tuple[Degraded, ...]


class Touched(Struct, frozen=True):
    """Something changed in a directory that the caller asked about."""

    directory: str


class FollowedEnded(Struct, frozen=True):
    """A process that the caller asked about has ended."""


WatchEvent = SessionChange | Switched | AgentsChanged | Troubles | Touched | FollowedEnded
