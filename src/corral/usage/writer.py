"""Storing readings: each event once, on the session that first recorded it, in whatever order logs are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from corral.usage.checks import COUNTED, Damaged
from corral.usage.rows import SHARED, STAND_IN, Row, Rows, SourceState, is_read

_NAME_OF = "(SELECT session_id || '/' || scope FROM sessions WHERE sessions.id = {})"
_PLACE_OF = (
    "(SELECT session_id || '/' || scope || char(0) || path FROM sessions JOIN homes ON homes.id = sessions.home"
    " WHERE sessions.id = {})"
)
_OWN = (
    "(excluded.rank < rank OR (excluded.rank = rank AND excluded.session != session"
    f" AND {_PLACE_OF.format('excluded.session')} < {_PLACE_OF.format('session')}))"
)
"""Among equals the least name decides: one of them has to be chosen, and always the same. The same session in two homes
is a home that was copied."""
_SURE = "(CASE {}model_source WHEN 'recorded' THEN 2 WHEN 'journal' THEN 1 ELSE 0 END)"
"""How sure a model is. What the config said when the event was first seen stays, also when it said nothing."""
_SURER = f"{_SURE.format('excluded.')} > {_SURE.format('')}"
_TAKE_MODEL = f"({_SURER} OR ({_OWN} AND {_SURE.format('excluded.')} = {_SURE.format('')} AND {_SURE.format('')} > 0))"
_COUNTS = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
_LARGER = "(excluded.session = session AND ({}) > ({}))".format(
    *(
        ", ".join([" + ".join(f"{of}{name}" for name in _COUNTS), *(f"{of}{name}" for name in _COUNTS)])
        for of in ("excluded.", "")
    )
)
"""A session that records one request twice has its count in one of them and less, or nothing yet, in the other."""
_TAKE_COUNTS = ", ".join(f"{name} = iif({_LARGER}, excluded.{name}, {name})" for name in _COUNTS)


def _make_upsert(more: str, take_model: str, changes: str, counts: str) -> str:
    return f"""
INSERT INTO events (session, key, rank, at, agent, model, model_source, {", ".join(_COUNTS)}, branch, {more})
VALUES ({", ".join("?" * (15 + more.count(",")))})
ON CONFLICT (key) DO UPDATE SET
    session = iif({_OWN}, excluded.session, session),
    agent = iif({_OWN}, excluded.agent, agent),
    branch = iif({_OWN}, excluded.branch, branch),
    model = iif({take_model}, excluded.model, model),
    model_source = iif({take_model}, excluded.model_source, model_source),
    ambiguous = CASE
        WHEN excluded.rank = rank THEN
            max(ambiguous, excluded.ambiguous, {_NAME_OF.format("excluded.session")} != {_NAME_OF.format("session")})
        ELSE iif({_OWN}, excluded.ambiguous, ambiguous) END,
    rank = min(rank, excluded.rank),
    at = min(at, excluded.at){counts}
WHERE excluded.rank != rank OR excluded.at < at OR excluded.session != session OR {changes}
"""


_UPSERT_EVENT = _make_upsert("dollars, picos, assumed", _TAKE_MODEL, f"{_SURER} OR {_LARGER}", f", {_TAKE_COUNTS}")
_UPSERT_ACTION = f"""
INSERT INTO actions (session, key, rank, at, kind, name) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    session = iif({_OWN}, excluded.session, session), rank = min(rank, excluded.rank), at = min(at, excluded.at)
WHERE {_OWN} OR excluded.at < at
"""
_UPSERT_UNRECORDED = f"""
INSERT INTO unrecorded (session, key, rank, at, kind) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    session = iif({_OWN}, excluded.session, session), kind = iif({_OWN}, excluded.kind, kind),
    rank = min(rank, excluded.rank), at = min(at, excluded.at)
WHERE {_OWN} OR excluded.at < at
"""
_FIRST_SEEN = (
    f"({_SURER} OR ({_SURE.format('excluded.')} = 0 AND {_SURE.format('')} = 0"
    " AND (excluded.model IS NOT model OR excluded.model_source != model_source)))"
)
_ADD_KNOWN_EVENT = _make_upsert("ambiguous", _FIRST_SEEN, f"{_FIRST_SEEN} OR excluded.ambiguous > ambiguous", "")
ADD_KNOWN = {"events": _ADD_KNOWN_EVENT, "actions": _UPSERT_ACTION, "unrecorded": _UPSERT_UNRECORDED}
"""For what an older ledger knows, after the logs were read. A model that no log records stays what it was when the
request was first seen, and the older ledger has seen it first."""
_UPSERT_SOURCE = (
    f"INSERT INTO sources (path, {', '.join(SourceState._fields)}, described) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (path) DO UPDATE SET device = excluded.device, inode = excluded.inode, size = excluded.size,"
    " mtime_ns = excluded.mtime_ns, head = excluded.head, head_size = excluded.head_size,"
    " offset = excluded.offset, tail = excluded.tail, deferred = excluded.deferred,"
    " described = excluded.described"
)
_UPSERT_SESSION = (
    "INSERT INTO sessions (home, scope, session_id, work_dir, has_log) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET has_log = max(has_log, excluded.has_log), work_dir = CASE"
    " WHEN excluded.has_log THEN coalesce(excluded.work_dir, iif(has_log, work_dir, NULL))"
    " WHEN has_log THEN work_dir"
    " ELSE min(coalesce(work_dir, excluded.work_dir), coalesce(excluded.work_dir, work_dir)) END"
)
"""Where a session ran, by its own log; by a copy of its lines only as long as nothing else says so."""


class Writer:
    """Stores rows within one transaction; homes and sessions are looked up once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._homes: dict[tuple[str, str], int] = {}
        self._sessions: dict[tuple[int, str, str], int] = {}
        self.touched: set[int] = set()
        """Sessions that were written to; `sums` notes those that something was taken from."""

    def write(self, found: Sequence[Rows]) -> None:
        """Many readings at once: statements that run once for all of them cost a fraction."""
        for rows in found:
            if rows.wrong:
                self._drop(rows)
        self._store_sources(found)
        own = [rows for rows in found if rows.session_id]
        self._store_sessions(own)
        self._store([(rows, (rows.events, rows.actions, rows.unrecorded)) for rows in own], {})
        for rows in found:
            if not rows.session_id:
                self._write_shared(rows)

    def _drop(self, rows: Rows) -> None:
        """Forget what a file was wrongly taken to say; what others say too stays with them."""
        home = self.find_home(rows.provider, rows.home)
        names = {name for name, _, _ in rows.wrong} if rows.session_id else set[str]()
        ids = {name: self._session(rows, home, name) for name in names}
        self.touched.update(ids.values())
        wrong = [(key, rank, ids.get(name)) for name, key, rank in rows.wrong]
        for table in COUNTED:
            drop = f"DELETE FROM {table} WHERE key = ?1 AND rank >= ?2 AND session = coalesce(?3, session)"
            self._db.executemany(drop, wrong)
        if not rows.session_id:
            empty = " AND ".join(f"id NOT IN (SELECT session FROM {name})" for name in COUNTED)
            self._db.execute(f"DELETE FROM sessions WHERE home = ? AND scope = '' AND NOT has_log AND {empty}", (home,))

    def _write_shared(self, rows: Rows) -> None:
        """A file of the whole home names sessions without their container, and stands in where no log was read."""
        read = self.list_read(rows.provider, self.find_home(rows.provider, rows.home))
        events = [row for row in rows.events if not (row[2] >= STAND_IN and row[0] in read)]
        unrecorded = [row for row in rows.unrecorded if row[0] not in read]
        self._store([(rows, (events, rows.actions, unrecorded))], read)

    def _store(self, found: Sequence[tuple[Rows, tuple[list[Row], ...]]], read: dict[str, int]) -> None:
        """Events, actions and unrecorded calls of each; `read` are sessions that are known already."""
        for place, upsert in enumerate((_UPSERT_EVENT, _UPSERT_ACTION, _UPSERT_UNRECORDED)):
            self._db.executemany(upsert, self._bind(((rows, some[place]) for rows, some in found), read))

    def _bind(self, found: Iterable[tuple[Rows, list[Row]]], read: dict[str, int]) -> Iterator[Row]:
        """Rows with the number of their session instead of its id."""
        for rows, some in found:
            if some:
                home = self.find_home(rows.provider, rows.home)
                names = {row[0] for row in some}
                ids = {name: read.get(name) or self._session(rows, home, name) for name in names}
                self.touched.update(ids.values())
                for row in some:
                    yield (ids[row[0]], *row[1:])

    def _store_sources(self, found: Sequence[Rows]) -> None:
        self._db.executemany(_UPSERT_SOURCE, [(rows.path, *rows.state, rows.described) for rows in found])
        query = "SELECT DISTINCT path FROM skips JOIN sources ON sources.id = source"
        skipped = {path for (path,) in self._db.execute(query)}
        for rows in found:
            if rows.skips or rows.path in skipped:
                (source,) = self._db.execute("SELECT id FROM sources WHERE path = ?", (rows.path,)).fetchone()
                self._db.execute("DELETE FROM skips WHERE source = ? AND offset >= ?", (source, rows.since))
                self._db.executemany(
                    "INSERT OR REPLACE INTO skips (source, offset, reason) VALUES (?, ?, ?)",
                    [(source, *skip) for skip in rows.skips],
                )

    def _store_sessions(self, found: Sequence[Rows]) -> None:
        """The sessions whose own logs these are. What was known of one by its name alone becomes its own."""
        keys = {(self.find_home(rows.provider, rows.home), rows.scope, rows.session_id): rows for rows in found}
        read = {key: is_read(rows.state) for key, rows in keys.items()}
        self._db.executemany(_UPSERT_SESSION, [(*key, rows.work_dir, read[key]) for key, rows in keys.items()])
        bare = {
            (home, session_id): session
            for home in {key[0] for key in keys}
            for session, session_id in self._db.execute(
                "SELECT id, session_id FROM sessions NOT INDEXED WHERE home = ? AND scope = ''", (home,)
            )
        }
        for home, scope, session_id in keys:
            found_id = self._find_session(home, scope, session_id)
            self._sessions[home, scope, session_id] = found_id
            if scope and (home, session_id) in bare and read[home, scope, session_id]:
                self.adopt(bare[home, session_id], found_id)

    def find_home(self, provider: str, path: str) -> int:
        if (provider, path) not in self._homes:
            self._db.execute("INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)", (provider, path))
            found = self._db.execute(
                "SELECT id FROM homes WHERE provider = ? AND path = ?", (provider, path)
            ).fetchone()
            self._homes[provider, path] = found[0]
        return self._homes[provider, path]

    def _session(self, rows: Rows, home: int, session_id: str) -> int:
        key = (home, rows.scope, session_id)
        if key not in self._sessions:
            self._db.execute(_UPSERT_SESSION, (*key, rows.work_dir, False))
            self._sessions[key] = self._find_session(*key)
        return self._sessions[key]

    def _find_session(self, home: int, scope: str, session_id: str) -> int:
        """One that was just stored. Raises Damaged where the index does not lead to it."""
        key = (home, scope, session_id)
        find = "SELECT id FROM sessions WHERE home = ? AND scope = ? AND session_id = ?"
        found = self._db.execute(find, key).fetchone()
        there = "SELECT home, scope, session_id FROM sessions NOT INDEXED WHERE id = ?"
        if found is None or self._db.execute(there, found).fetchone() != key:
            raise Damaged("the index of sessions is not as its rows are")
        return found[0]

    def adopt(self, bare: int, session: int) -> None:
        """The log of a session is found that only a file of the whole home had named."""
        for table in ("events", "unrecorded"):
            self._db.execute(f"DELETE FROM {table} WHERE session = ? AND rank >= {STAND_IN}", (bare,))
            self._db.execute(f"UPDATE {table} SET session = ? WHERE session = ? AND rank >= {SHARED}", (session, bare))
        self._db.execute("DELETE FROM sessions WHERE id = ?", (bare,))

    def list_read(self, provider: str, home: int) -> dict[str, int]:
        """The sessions whose own logs were read; of equal ids the one of this home, then that of the least scope."""
        rows = self._db.execute(
            "SELECT session_id, sessions.id FROM sessions NOT INDEXED JOIN homes ON homes.id = home"
            " WHERE provider = ? AND has_log ORDER BY home = ?, scope DESC",
            (provider, home),
        )
        return dict(rows.fetchall())


def store_state(db: sqlite3.Connection, path: str, state: Sequence[int]) -> None:
    db.execute(_UPSERT_SOURCE, (path, *state, None))
