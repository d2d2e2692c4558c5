"""Storing readings: each event once, on the session that first recorded it, whatever the order in which logs are read.

Standard library only, like the ledger itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from corral.model.usage import UsageBatch, UsageEvent, UsageSource

STATE_COLUMNS = "device, inode, size, mtime_ns, head, head_size, offset, tail"

_HOME_OF = "(SELECT path FROM homes JOIN sessions ON homes.id = sessions.home WHERE sessions.id = {})"
_OWN = (
    "(excluded.rank < rank OR (excluded.rank = rank AND excluded.session != session"
    f" AND {_HOME_OF.format('excluded.session')} < {_HOME_OF.format('session')}))"
)
"""The same session in two homes is a home that was copied: one of them has to be chosen, and always the same."""
_SURE = "(CASE {}model_source WHEN 'recorded' THEN 2 WHEN 'journal' THEN 1 ELSE 0 END)"
"""How sure a model is. What the config said when the event was first seen stays, also when it said nothing."""
_SURER = f"{_SURE.format('excluded.')} > {_SURE.format('')}"
_TAKE_MODEL = f"({_SURER} OR ({_OWN} AND {_SURE.format('excluded.')} = {_SURE.format('')} AND {_SURE.format('')} > 0))"
_UPSERT_EVENT = f"""
INSERT INTO events (session, key, home, rank, at, agent, model, model_source, input, cache_read, cache_write,
    cache_write_1h, output, reasoning, branch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (home, key) DO UPDATE SET
    session = iif({_OWN}, excluded.session, session),
    agent = iif({_OWN}, excluded.agent, agent),
    branch = iif({_OWN}, excluded.branch, branch),
    model = iif({_TAKE_MODEL}, excluded.model, model),
    model_source = iif({_TAKE_MODEL}, excluded.model_source, model_source),
    ambiguous = CASE
        WHEN substr(excluded.rank, 1, 2) = substr(rank, 1, 2) THEN max(ambiguous, excluded.rank != rank)
        ELSE iif({_OWN}, 0, ambiguous) END,
    rank = min(rank, excluded.rank),
    at = min(at, excluded.at)
WHERE excluded.rank != rank OR excluded.at < at OR excluded.session != session OR {_SURER}
"""
_UPSERT_DEED = f"""
INSERT INTO deeds (session, key, home, rank, at, kind, name) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (home, key) DO UPDATE SET
    session = iif({_OWN}, excluded.session, session), rank = min(rank, excluded.rank), at = min(at, excluded.at)
WHERE {_OWN} OR excluded.at < at
"""
_UPSERT_UNRECORDED = f"""
INSERT INTO unrecorded (session, key, home, rank, at, kind) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (home, key) DO UPDATE SET
    session = iif({_OWN}, excluded.session, session), kind = iif({_OWN}, excluded.kind, kind),
    rank = min(rank, excluded.rank), at = min(at, excluded.at)
WHERE {_OWN} OR excluded.at < at
"""
_SHARED = "80"
_STAND_IN = "90"
"""They begin the rank of what a file of the whole home says: of any session; of one whose own log was never read."""


class SourceState(NamedTuple):
    """A file as it was when it was last read."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    head: int
    head_size: int
    offset: int
    tail: int = 0


class Reading(NamedTuple):
    """What one reading of one file gave, to be stored in one piece with how far it came."""

    source: UsageSource
    state: SourceState
    batch: UsageBatch
    models: Sequence[tuple[str | None, str]]
    """For each event of the batch: the model and how it is known."""
    since: int = 0
    """Where the reading began."""
    begun_at: float | None = None
    """When an agent first reported the session, in epoch seconds."""


class Writer:
    """Stores readings within one transaction; homes and sessions are looked up once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._homes: dict[tuple[str, str], int] = {}
        self._sessions: dict[tuple[int, str, str, bool], int] = {}

    def write(self, reading: Reading) -> None:
        source, batch = reading.source, reading.batch
        home = self._home(source.provider, source.home)
        self._store_source(reading)
        owner = _Owner(reading)
        family = self._family(source.provider)
        read = self._list_read(source.provider, home) if not source.session_id else {}

        def session(session_id: str) -> int:
            # A file of the whole home names sessions without their container.
            return read.get(session_id) or self._session(source, home, session_id)

        self._db.executemany(
            _UPSERT_EVENT,
            [
                self._event_row(session(event.session_id), family, owner, event, *known)
                for event, known in zip(batch.events, reading.models, strict=True)
                if not (event.stands_in and event.session_id in read)
            ],
        )
        self._db.executemany(
            _UPSERT_DEED,
            [
                (session(d.session_id), d.key, family, owner.rank(d.session_id, d.at), d.at, d.kind, d.name)
                for d in batch.deeds
            ],
        )
        self._db.executemany(
            _UPSERT_UNRECORDED,
            [
                (session(u.session_id), u.key, family, owner.rank(u.session_id, u.at, stands_in=True), u.at, u.kind)
                for u in batch.unrecorded
                if u.session_id not in read
            ],
        )

    def _event_row(
        self, session: int, family: int, owner: _Owner, event: UsageEvent, model: str | None, model_source: str
    ) -> tuple[object, ...]:
        tokens = event.tokens
        return (
            session,
            event.key,
            family,
            owner.rank(event.session_id, event.at, stands_in=event.stands_in),
            event.at,
            event.agent,
            model,
            model_source,
            tokens.input,
            tokens.cache_read,
            tokens.cache_write,
            tokens.cache_write_1h,
            tokens.output,
            tokens.reasoning,
            event.branch,
        )

    def _store_source(self, reading: Reading) -> None:
        store_state(self._db, reading.source.path, reading.state)
        (source_id,) = self._db.execute("SELECT id FROM sources WHERE path = ?", (reading.source.path,)).fetchone()
        self._db.execute("DELETE FROM skips WHERE source = ? AND offset >= ?", (source_id, reading.since))
        self._db.executemany(
            "INSERT OR REPLACE INTO skips VALUES (?, ?, ?)",
            [(source_id, skip.offset, skip.reason) for skip in reading.batch.skipped],
        )

    def _home(self, provider: str, path: str) -> int:
        if (provider, path) not in self._homes:
            self._db.execute("INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)", (provider, path))
            found = self._db.execute(
                "SELECT id FROM homes WHERE provider = ? AND path = ?", (provider, path)
            ).fetchone()
            self._homes[provider, path] = found[0]
        return self._homes[provider, path]

    def _session(self, source: UsageSource, home: int, session_id: str) -> int:
        own = source.session_id == session_id
        cached = (home, source.scope, session_id, own)
        if cached not in self._sessions:
            self._sessions[cached] = self._store_session(source, home, session_id, own=own)
        return self._sessions[cached]

    def _store_session(self, source: UsageSource, home: int, session_id: str, *, own: bool) -> int:
        """Its own log tells where a session ran; a copy of its lines only as long as nothing else does."""
        key = (home, source.scope, session_id)
        self._db.execute(
            "INSERT INTO sessions (home, scope, session_id, work_dir, has_log) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET has_log = max(has_log, excluded.has_log), work_dir = CASE"
            " WHEN excluded.has_log THEN coalesce(excluded.work_dir, iif(has_log, work_dir, NULL))"
            " WHEN has_log THEN work_dir"
            " ELSE min(coalesce(work_dir, excluded.work_dir), coalesce(excluded.work_dir, work_dir)) END",
            (*key, source.work_dir, own),
        )
        find = "SELECT id FROM sessions WHERE home = ? AND scope = ? AND session_id = ?"
        (found,) = self._db.execute(find, key).fetchone()
        bare = self._db.execute(find, (home, "", session_id)).fetchone() if own and source.scope else None
        if bare is not None:
            self._adopt(bare[0], found)
        return found

    def _adopt(self, bare: int, session: int) -> None:
        """The log of a session is found that only a file of the whole home had named."""
        for table in ("events", "unrecorded"):
            self._db.execute(f"DELETE FROM {table} WHERE session = ? AND rank >= '{_STAND_IN}'", (bare,))
            self._db.execute(
                f"UPDATE {table} SET session = ? WHERE session = ? AND rank >= '{_SHARED}'", (session, bare)
            )
        self._db.execute("DELETE FROM sessions WHERE id = ?", (bare,))

    def _family(self, provider: str) -> int:
        """A provider's first home. Events are one wherever they lie: homes are moved, copied and brought together."""
        return self._db.execute("SELECT min(id) FROM homes WHERE provider = ?", (provider,)).fetchone()[0]

    def _list_read(self, provider: str, home: int) -> dict[str, int]:
        """The sessions whose own logs were read; of equal ids the one of this home, then that of the least scope."""
        rows = self._db.execute(
            "SELECT session_id, sessions.id FROM sessions JOIN homes ON homes.id = home"
            " WHERE provider = ? AND has_log ORDER BY home = ?, scope DESC",
            (provider, home),
        )
        return dict(rows.fetchall())


class _Owner:
    """Of several sessions that hold one event, the one with the least rank owns it.

    A rank begins with two digits: 00 is a session that an agent had reported before the event, so that it is no copy;
    01 one of which nobody says whether it is a fork; then forks by the provider's word, a fork of a fork after its
    parent; 80 and 90 what a file of the whole home says. Among equals the least id decides: then it is ambiguous.
    """

    def __init__(self, reading: Reading) -> None:
        source = reading.source
        self._begun_at = reading.begun_at
        self._word = f"{min(source.generation or int(source.parent_id is not None), 60) + 1:02}"
        self._shared = not source.session_id
        self._scope = source.scope

    def rank(self, session_id: str, at: float, *, stands_in: bool = False) -> str:
        word = self._word
        if self._shared:
            word = _STAND_IN if stands_in else _SHARED
        elif self._begun_at is not None and self._begun_at <= at:
            word = "00"
        return f"{word}{session_id}/{self._scope}"


def store_state(db: sqlite3.Connection, path: str, state: SourceState) -> None:
    db.execute(
        f"INSERT INTO sources (path, {STATE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (path) DO UPDATE SET device = excluded.device, inode = excluded.inode, size = excluded.size,"
        " mtime_ns = excluded.mtime_ns, head = excluded.head, head_size = excluded.head_size,"
        " offset = excluded.offset, tail = excluded.tail",
        (path, *state),
    )
