"""The event stream: what each event says, and one bounded ring of them for any number of subscribers.

A subscriber that falls out of the ring is told to fetch everything again. docs/api.md and the page's types are made
from the nouns here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from corral.machine.json_text import encode_json
from corral.model.change import Change
from corral.model.session import AgentProcess, Degraded
from corral.model.tab import Progress, TabView
from corral.server.messages import ListedSession, SpentBySession, SpentToday

MOST_EVENTS = 2000
MOST_BYTES = 4 << 20
BEAT_SECONDS = 2.0
"""A page that hears nothing for longer knows that what it shows is old."""
_BEAT = b"event: beat\ndata: {}\n\n"
"""It has no number: nobody can miss it."""
_PER_START = 1_000_000_000
_BATCH = 64


class Event(NamedTuple):
    """One that happened, ready to be sent."""

    number: int
    data: bytes


class EventStream:
    """Numbers grow over restarts: the number of this start, and a counter. For the event loop's thread alone."""

    def __init__(self, start_number: int) -> None:
        self.newest = start_number * _PER_START
        self._first = self.newest
        """The number before the oldest event that is still here."""
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._ended = False

    def publish(self, name: str, body: object) -> None:
        self.newest += 1
        event = Event(self.newest, encode_event(self.newest, name, body))
        self._events.append(event)
        self._bytes += len(event.data)
        while len(self._events) > MOST_EVENTS or self._bytes > MOST_BYTES:
            old = self._events.popleft()
            self._bytes -= len(old.data)
            self._first = old.number
        self._wake()

    def end(self) -> None:
        """The server stops: streams end after the last event."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()

    async def follow(self, after: int | None, hello: object) -> AsyncIterator[bytes]:
        """The text of the stream: a greeting, then what comes after that number, or from now on."""
        position = self.newest if after is None else after  # before the greeting: what happens meanwhile counts
        yield encode_event(position, "hello", hello)
        if not self._first <= position <= self.newest:
            position = self.newest
            yield encode_event(position, "resync", {"reason": "events since then are no longer kept"})
        while True:
            if position < self._first:  # it reads more slowly than things happen
                position = self.newest
                yield encode_event(position, "resync", {"reason": "more happened than could be sent"})
                continue
            # Few at a time: a slow reader must fall out of the ring, not keep a copy of it alive.
            batch = self._after(position)
            if batch:
                position = batch[-1].number
                yield b"".join(event.data for event in batch)
                continue
            if self._ended:
                return
            arrived = self._arrived
            try:
                await asyncio.wait_for(arrived.wait(), BEAT_SECONDS)
            except TimeoutError:
                yield _BEAT

    def _after(self, position: int) -> list[Event]:
        missing = self.newest - position
        if missing <= 0:
            return []
        begin = max(0, len(self._events) - missing)
        return [self._events[at] for at in range(begin, min(len(self._events), begin + _BATCH))]


def encode_event(number: int, name: str, body: object) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, name.encode(), encode_json(body))


# --- what each event says


class HelloEvent(Struct, frozen=True, kw_only=True):
    """The first event. From now on one comes at least every `beat_s` seconds."""

    version: str
    event: int
    beat_s: float


class BeatEvent(Struct, frozen=True):
    """Nothing happened. It has no `id`."""


class SessionEvent(Struct, frozen=True, kw_only=True):
    """A session as it is now, or as it was last if it is gone."""

    change: Change
    session: ListedSession


class SwitchedEvent(Struct, frozen=True, kw_only=True, rename={"previous": "from", "current": "to"}):
    """A process switched to another session; both are refs."""

    pid: int
    previous: str
    current: str


class TabChange(StrEnum):
    """What happened to a tab."""

    OPENED = "opened"
    CHANGED = "changed"
    CLOSED = "closed"


class TabEvent(Struct, frozen=True, kw_only=True):
    """A tab as it is now, or as it was last if it is closed."""

    change: TabChange
    tab: TabView


class UsageEvent(Struct, frozen=True, kw_only=True):
    """What was spent today, and by each session whose sums changed; the keys are refs."""

    usage_today: SpentToday | None
    sessions: dict[str, SpentBySession | None]


class AgentsEvent(Struct, frozen=True, kw_only=True):
    """All agents without a known session, as in the list of sessions."""

    unattributed: tuple[AgentProcess, ...]
    no_session_yet: tuple[AgentProcess, ...]


class DegradedEvent(Struct, frozen=True, kw_only=True):
    """Everything that can't be read or watched at present."""

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
