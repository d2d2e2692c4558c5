"""The nouns of the event stream: what each event says. docs/api.md and the page's types are made from these."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from corral.model.change import Change
from corral.model.session import AgentProcess, Degraded
from corral.model.tab import Progress, TabView
from corral.server.messages import ListedSession, SpentBySession, SpentToday


class HelloEvent(Struct, frozen=True, kw_only=True):
    """The first one. From now on something comes at least every `beat_s` seconds."""

    version: str
    event: int
    beat_s: float


class BeatEvent(Struct, frozen=True):
    """Nothing else happened. It has no `id`."""


class SessionEvent(Struct, frozen=True, kw_only=True):
    """A session as it is now; as it was last, if it is gone."""

    change: Change
    session: ListedSession


class SwitchedEvent(Struct, frozen=True, kw_only=True, rename={"previous": "from", "current": "to"}):
    """One process went over to another session; both are refs."""

    pid: int
    previous: str
    current: str


class TabChange(StrEnum):
    """Of one tab."""

    OPENED = "opened"
    CHANGED = "changed"
    CLOSED = "closed"


class TabEvent(Struct, frozen=True, kw_only=True):
    """A tab as it is now; as it was last, if it is closed."""

    change: TabChange
    tab: TabView


class UsageEvent(Struct, frozen=True, kw_only=True):
    """What was spent today, and by each session whose sums changed, by its ref."""

    usage_today: SpentToday | None
    sessions: dict[str, SpentBySession | None]


class AgentsEvent(Struct, frozen=True, kw_only=True):
    """All agents without a known session, as in the list of sessions."""

    unattributed: tuple[AgentProcess, ...]
    no_session_yet: tuple[AgentProcess, ...]


class DegradedEvent(Struct, frozen=True, kw_only=True):
    """What could not be read or watched, all of it."""

    degraded: tuple[Degraded, ...]


class ResyncEvent(Struct, frozen=True, kw_only=True):
    """Fetch sessions and tabs again."""

    reason: str


EVENTS: dict[str, Any] = {
    "hello": HelloEvent,
    "beat": BeatEvent,
    "session": SessionEvent,
    "switched": SwitchedEvent,
    "tab": TabEvent,
    "restore": Progress,
    "usage": UsageEvent,
    "agents": AgentsEvent,
    "degraded": DegradedEvent,
    "resync": ResyncEvent,
}
"""By the name under which each is sent."""
