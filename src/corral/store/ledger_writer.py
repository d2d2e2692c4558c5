"""Storing readings: each event once, on the session that first recorded it, whatever the order in which logs are read.

Standard library only, like the ledger itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from corral.store.ledger_rows import SHARED, STAND_IN, Rows, SourceState

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
INSERT INTO events (session, home, key, rank, at, agent, model, model_source, input, cache_read, cache_write,
    cache_write_1h, output, reasoning, branch, dollars, picos, assumed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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
INSERT INTO deeds (session, home, key, rank, at, kind, name) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (home, key) DO UPDATE SET
    session = iif({_OWN}, excluded.session, session), rank = min(rank, excluded.rank), at = min(at, excluded.at)
WHERE {_OWN} OR excluded.at < at
"""
_UPSERT_UNRECORDED = f"""
INSERT INTO unrecorded (session, home, key, rank, at, kind) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (home, key) DO UPDATE SET
    session = iif({_OWN}, excluded.session, session), kind = iif({_OWN}, excluded.kind, kind),
    rank = min(rank, excluded.rank), at = min(at, excluded.at)
WHERE {_OWN} OR excluded.at < at
"""


class Writer:
    """Stores rows within one transaction; homes and sessions are looked up once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._homes: dict[tuple[str, str], int] = {}
        self._sessions: dict[tuple[int, str, str, bool], int] = {}
        self._families: dict[str, int] = {}
        self._skipped: set[str] | None = None
        self.touched: set[int] = set()
        """Sessions that were written to; ledger_sums notes those that something was taken from."""

    def write(self, rows: Rows) -> None:
        home = self._home(rows.provider, rows.home)
        self._store_source(rows)
        family = self._family(rows.provider)
        read = self._list_read(rows.provider, home) if not rows.session_id else {}
        events, unrecorded = rows.events, rows.unrecorded
        if read:
            events = [row for row in events if not (row[2] >= STAND_IN and row[0] in read)]
            unrecorded = [row for row in unrecorded if row[0] not in read]
        for upsert, found in ((_UPSERT_EVENT, events), (_UPSERT_DEED, rows.deeds), (_UPSERT_UNRECORDED, unrecorded)):
            # A file of the whole home names sessions without their container.
            ids = {name: read.get(name) or self._session(rows, home, name) for name in {row[0] for row in found}}
            self.touched.update(ids.values())
            self._db.executemany(upsert, [(ids[row[0]], family, *row[1:]) for row in found])

    def _store_source(self, rows: Rows) -> None:
        store_state(self._db, rows.path, rows.state, rows.described)
        if not rows.skips and rows.path not in self._list_skipped():
            return
        (source_id,) = self._db.execute("SELECT id FROM sources WHERE path = ?", (rows.path,)).fetchone()
        self._db.execute("DELETE FROM skips WHERE source = ? AND offset >= ?", (source_id, rows.since))
        self._db.executemany(
            "INSERT OR REPLACE INTO skips VALUES (?, ?, ?)", [(source_id, *skip) for skip in rows.skips]
        )

    def _list_skipped(self) -> set[str]:
        """The files of which lines could not be counted when this transaction began."""
        if self._skipped is None:
            query = "SELECT DISTINCT path FROM skips JOIN sources ON sources.id = source"
            self._skipped = {path for (path,) in self._db.execute(query)}
        return self._skipped

    def _home(self, provider: str, path: str) -> int:
        if (provider, path) not in self._homes:
            self._db.execute("INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)", (provider, path))
            found = self._db.execute(
                "SELECT id FROM homes WHERE provider = ? AND path = ?", (provider, path)
            ).fetchone()
            self._homes[provider, path] = found[0]
        return self._homes[provider, path]

    def _session(self, rows: Rows, home: int, session_id: str) -> int:
        own = rows.session_id == session_id
        cached = (home, rows.scope, session_id, own)
        if cached not in self._sessions:
            self._sessions[cached] = self._store_session(rows, home, session_id, own=own)
        return self._sessions[cached]

    def _store_session(self, rows: Rows, home: int, session_id: str, *, own: bool) -> int:
        """Its own log tells where a session ran; a copy of its lines only as long as nothing else does."""
        key = (home, rows.scope, session_id)
        self._db.execute(
            "INSERT INTO sessions (home, scope, session_id, work_dir, has_log) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET has_log = max(has_log, excluded.has_log), work_dir = CASE"
            " WHEN excluded.has_log THEN coalesce(excluded.work_dir, iif(has_log, work_dir, NULL))"
            " WHEN has_log THEN work_dir"
            " ELSE min(coalesce(work_dir, excluded.work_dir), coalesce(excluded.work_dir, work_dir)) END",
            (*key, rows.work_dir, own),
        )
        find = "SELECT id FROM sessions WHERE home = ? AND scope = ? AND session_id = ?"
        (found,) = self._db.execute(find, key).fetchone()
        bare = self._db.execute(find, (home, "", session_id)).fetchone() if own and rows.scope else None
        if bare is not None:
            self._adopt(bare[0], found)
        return found

    def _adopt(self, bare: int, session: int) -> None:
        """The log of a session is found that only a file of the whole home had named."""
        for table in ("events", "unrecorded"):
            self._db.execute(f"DELETE FROM {table} WHERE session = ? AND rank >= '{STAND_IN}'", (bare,))
            self._db.execute(
                f"UPDATE {table} SET session = ? WHERE session = ? AND rank >= '{SHARED}'", (session, bare)
            )
        self._db.execute("DELETE FROM sessions WHERE id = ?", (bare,))

    def _family(self, provider: str) -> int:
        """A provider's first home. Events are one wherever they lie: homes are moved, copied and brought together."""
        if provider not in self._families:
            found = self._db.execute("SELECT min(id) FROM homes WHERE provider = ?", (provider,)).fetchone()
            self._families[provider] = found[0]
        return self._families[provider]

    def _list_read(self, provider: str, home: int) -> dict[str, int]:
        """The sessions whose own logs were read; of equal ids the one of this home, then that of the least scope."""
        rows = self._db.execute(
            "SELECT session_id, sessions.id FROM sessions JOIN homes ON homes.id = home"
            " WHERE provider = ? AND has_log ORDER BY home = ?, scope DESC",
            (provider, home),
        )
        return dict(rows.fetchall())


def store_state(db: sqlite3.Connection, path: str, state: Sequence[int], described: str | None = None) -> None:
    db.execute(
        f"INSERT INTO sources (path, {', '.join(SourceState._fields)}, described) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (path) DO UPDATE SET device = excluded.device, inode = excluded.inode, size = excluded.size,"
        " mtime_ns = excluded.mtime_ns, head = excluded.head, head_size = excluded.head_size,"
        " offset = excluded.offset, tail = excluded.tail, described = excluded.described",
        (path, *state, described),
    )
