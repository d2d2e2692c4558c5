"""The session that a question about usage names, on disk or in the ledger alone, and what the ledger has of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from corral.errors import Ambiguous, NotFound
from corral.machine import places
from corral.model.key import spoken_id
from corral.model.usage import UsageSource
from corral.model.usage_report import UsageQuery
from corral.providers.asking import Asker
from corral.providers.contract import Provider
from corral.providers.registry import all_providers
from corral.providers.settings import read_settings
from corral.sessions.cache import Cache
from corral.sessions.gather import environment
from corral.sessions.naming import Name, parse_name
from corral.usage.families import Ties
from corral.usage.journaled import ReportedSessions, list_usage_homes
from corral.usage.ledger import Ledger
from corral.usage.rows import TOLD


class NamedSession(Struct, frozen=True, kw_only=True):
    """One session and the files in which its usage can stand."""

    provider: Provider
    home: str
    scope: str
    session_id: str
    work_dir: str | None
    sources: tuple[UsageSource, ...]
    """Its own logs, then files of the whole home, then those of its forks: they hold copies."""

    @property
    def name(self) -> str:
        scope = f"{self.scope}/" if self.scope else ""
        return f"{self.provider.name}:{scope}{self.session_id}"


class _Candidate(Struct):
    scope: str = ""
    work_dir: str | None = None


def find_named(ledger: Ledger, name: str) -> NamedSession:
    """The one session called so. Raises NotFound or Ambiguous."""
    wanted = parse_name(name)
    sources = {provider.name: list(_list_sources(ledger, provider, wanted)) for provider in all_providers()}
    found: dict[tuple[str, str, str, str], _Candidate] = {}
    for provider, home, scope, session_id, work_dir in _list_known(ledger, sources):
        if _fits(wanted, provider, home, scope, session_id):
            # A file of the whole home names a session without its container.
            key = (provider, home, session_id, scope)
            bare = found.pop((provider, home, session_id, ""), None)
            if not scope and any(other[:3] == key[:3] for other in found):
                continue
            candidate = found.setdefault(key, bare or _Candidate())
            candidate.scope = scope or candidate.scope
            candidate.work_dir = work_dir or candidate.work_dir
    exact = {key: one for key, one in found.items() if wanted.session_id in (key[2], spoken_id(key[2]))}
    candidates = exact or found
    if not candidates:
        hint = "corral usage --by session lists those that used anything"
        raise NotFound(f"no session named {name!r}", hint=hint)
    if len(candidates) > 1:
        listed = [f"{key[0]}@{key[1]}:{key[3]}/{key[2]}".replace(":/", ":") for key in sorted(candidates)]
        raise Ambiguous(f"{name!r} could be any of {len(candidates)} sessions:", listed)
    ((provider, home, session_id, scope), candidate) = next(iter(candidates.items()))
    return NamedSession(
        provider=next(one for one in all_providers() if one.name == provider),
        home=home,
        scope=scope,
        session_id=session_id,
        work_dir=candidate.work_dir,
        sources=tuple(_choose(sources[provider], home, scope, session_id)),
    )


def narrow_to_session(ledger: Ledger, query: UsageQuery) -> UsageQuery:
    """The query with the whole id, and the provider, of the one session that it names. Raises Ambiguous.

    A name that the ledger does not know stays: such a session has used nothing.
    """
    ledger.checks.tables("sessions", "homes")
    wanted = parse_name(query.session or "")
    known = {
        (provider, session_id)
        for provider, home, scope, session_id, _ in list_sessions(ledger.db)
        if query.provider in (None, provider) and _fits(wanted, provider, home, scope, session_id)
    }
    exact = {one for one in known if wanted.session_id in (one[1], spoken_id(one[1]))}
    found = sorted(exact or known)
    if len(found) > 1:
        listed = [f"{provider}:{session_id}" for provider, session_id in found]
        raise Ambiguous(f"{query.session!r} could be any of {len(found)} sessions:", listed)
    return query._replace(provider=found[0][0], session=found[0][1]) if found else query


def _list_sources(ledger: Ledger, provider: Provider, wanted: Name) -> Iterator[UsageSource]:
    if wanted.provider in (None, provider.name):
        env = environment(read_settings(), Cache(places.cache_dir()))
        asker = Asker()
        homes = list_usage_homes(provider, env, ledger, ReportedSessions(places.state_dir()), asker)
        listed = (
            source
            for home in homes
            for source in asker.each(
                provider, f"list {home.path}", lambda home=home: provider.usage.list_sources(home, None)
            )
        )
        yield from Ties(ledger, provider.name, listed).sources


def _list_known(
    ledger: Ledger, sources: dict[str, list[UsageSource]]
) -> Iterator[tuple[str, str, str, str, str | None]]:
    ledger.checks.tables("sessions", "homes")
    yield from list_sessions(ledger.db)
    for listed in sources.values():
        for source in listed:
            if source.session_id:
                yield source.provider, source.home, source.scope, source.session_id, source.work_dir


def _fits(wanted: Name, provider: str, home: str, scope: str, session_id: str) -> bool:
    return (
        wanted.provider in (None, provider)
        and (wanted.home is None or os.path.realpath(wanted.home) == home)
        and wanted.scope in (None, scope)
        and (session_id.startswith(wanted.session_id) or spoken_id(session_id).startswith(wanted.session_id))
    )


def _choose(sources: list[UsageSource], home: str, scope: str, session_id: str) -> list[UsageSource]:
    """Own logs first: of equal lines the first is the one that counts."""

    def place(source: UsageSource) -> int | None:
        if source.home != home:
            return None
        if source.session_id == session_id and source.scope == (scope or source.scope):
            return 0
        if not source.session_id:
            return 1
        return 2 if source.parent_id == session_id else None

    placed = [(place(source), source) for source in sources]
    return [source for wanted in range(3) for where, source in placed if where == wanted]


_KEYS_AT_ONCE = 500
_WHOSE = (
    "NOT INDEXED CROSS JOIN sessions NOT INDEXED ON sessions.id = {} CROSS JOIN homes NOT INDEXED ON homes.id = home"
)
"""By numbers, which were checked: an index may miss what its table has."""
_EVENTS = (
    "SELECT key, homes.provider, homes.path, sessions.scope, sessions.session_id, rank, events.at, agent, model,"
    " model_source, ambiguous, input, cache_read, cache_write, cache_write_1h, output, reasoning"
    f" FROM events {_WHOSE.format('events.session')}"
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
    """See `digest`."""
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
        """An agent had reported the owner before it spent this (see the ranks)."""
        return self.rank == TOLD


def list_sessions(db: sqlite3.Connection) -> Iterable[KnownSession]:
    """Every session that was ever counted, also those whose logs are gone."""
    rows = db.execute(
        "SELECT homes.provider, homes.path, scope, session_id, work_dir FROM sessions NOT INDEXED"
        " CROSS JOIN homes NOT INDEXED ON homes.id = sessions.home"
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


def count_actions(db: sqlite3.Connection, provider: str, home: str, session_id: str) -> dict[str, int]:
    """How many turns and calls of tools one session has, by kind."""
    return _count(db, "actions", provider, home, session_id)


def count_unrecorded(db: sqlite3.Connection, provider: str, home: str, session_id: str) -> dict[str, int]:
    """How many calls of one session left a trace and no tokens, by kind."""
    return _count(db, "unrecorded", provider, home, session_id)


def _count(db: sqlite3.Connection, table: str, *session: str) -> dict[str, int]:
    rows = db.execute(
        f"SELECT kind, count(*) FROM {table} {_WHOSE.format('session')}"
        " WHERE homes.provider = ? AND homes.path = ? AND sessions.session_id = ? GROUP BY 1 ORDER BY 1",
        session,
    )
    return dict(rows)


def _event(row: tuple[object, ...]) -> KnownEvent:
    return KnownEvent(*row[:10], ambiguous=bool(row[10]), tokens=tuple(row[11:]))  # pyright: ignore[reportArgumentType]
