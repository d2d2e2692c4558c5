"""Single sessions and events of the ledger, for those who ask about one and not about sums."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from corral.store.ledger_rows import TOLD

_KEYS_AT_ONCE = 500
_EVENTS = (
    "SELECT key, homes.provider, homes.path, sessions.scope, sessions.session_id, rank, events.at, agent, model,"
    " model_source, ambiguous, input, cache_read, cache_write, cache_write_1h, output, reasoning FROM events"
    " JOIN sessions ON sessions.id = events.session JOIN homes ON homes.id = sessions.home"
)


class KnownSession(NamedTuple):
    """A session that has something in the ledger."""

    provider: str
    home: str
    scope: str
    session_id: str
    work_dir: str | None


class KnownEvent(NamedTuple):
    """A request as the ledger has it, and the session that owns it."""

    key: int
    """See `digest` in row_making."""
    provider: str
    home: str
    scope: str
    session_id: str
    rank: int
    at: float
    agent: str | None
    model: str | None
    model_source: str
    ambiguous: bool
    """Several sessions of equal standing hold it: nobody says which is the original."""
    tokens: tuple[int, ...]

    @property
    def is_told(self) -> bool:
        """An agent had reported the owner before it spent this (see the ranks in ledger_rows)."""
        return self.rank == TOLD


def list_sessions(db: sqlite3.Connection) -> Iterable[KnownSession]:
    """Every session that was ever counted, also those whose logs are gone."""
    rows = db.execute(
        "SELECT homes.provider, homes.path, scope, session_id, work_dir FROM sessions"
        " JOIN homes ON homes.id = sessions.home"
    )
    return map(KnownSession._make, rows)


def events_of(db: sqlite3.Connection, provider: str, home: str, session_id: str) -> dict[int, KnownEvent]:
    """What one session owns, by key."""
    where = " WHERE homes.provider = ? AND homes.path = ? AND sessions.session_id = ?"
    return {event.key: event for event in map(_event, db.execute(_EVENTS + where, (provider, home, session_id)))}


def find_events(db: sqlite3.Connection, keys: Sequence[int]) -> dict[int, KnownEvent]:
    """Events by their keys, whoever owns them."""
    found: dict[int, KnownEvent] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[start : start + _KEYS_AT_ONCE]
        where = f" WHERE events.key IN ({', '.join('?' * len(some))})"
        for event in map(_event, db.execute(_EVENTS + where, some)):
            found[event.key] = event
    return found


def count_deeds(db: sqlite3.Connection, provider: str, home: str, session_id: str) -> dict[str, int]:
    """How many turns and calls of tools one session has, by kind."""
    return _count(db, "deeds", provider, home, session_id)


def count_unrecorded(db: sqlite3.Connection, provider: str, home: str, session_id: str) -> dict[str, int]:
    """How many calls of one session left a trace and no tokens, by kind."""
    return _count(db, "unrecorded", provider, home, session_id)


def _count(db: sqlite3.Connection, table: str, *session: str) -> dict[str, int]:
    rows = db.execute(
        f"SELECT kind, count(*) FROM {table} JOIN sessions ON sessions.id = session"
        f" JOIN homes ON homes.id = sessions.home"
        " WHERE homes.provider = ? AND homes.path = ? AND sessions.session_id = ? GROUP BY 1 ORDER BY 1",
        session,
    )
    return dict(rows)


def _event(row: tuple[object, ...]) -> KnownEvent:
    return KnownEvent(*row[:10], ambiguous=bool(row[10]), tokens=tuple(row[11:]))  # pyright: ignore[reportArgumentType]
