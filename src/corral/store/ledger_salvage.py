"""Saving what can still be read of a broken ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress

from corral.store.ledger_rows import SHARED
from corral.store.ledger_sums import rebuild_sums

_TABLES = ("homes", "sessions", "events", "deeds", "unrecorded")


def salvage(broken: str, db: sqlite3.Connection) -> int:
    """Copy every row that can still be read, table by table; how many there were.

    Prices and sums are made anew: nothing says by which prices the rows were priced.
    """
    try:
        old = sqlite3.connect(f"file:{broken}?mode=ro", uri=True)
        old.text_factory = bytes  # damaged text must not stop the rest
    except sqlite3.Error:
        return 0
    saved = 0
    db.execute("BEGIN IMMEDIATE")
    foreign: set[object] = set()
    for table in _TABLES:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        if table == "events":
            foreign = _list_foreign(old, db)
        for row in _read_table(old, table, columns):
            if "session" in columns and row[columns.index("session")] in foreign:
                continue
            with suppress(sqlite3.Error, UnicodeDecodeError):
                values = [value.decode() if isinstance(value, bytes) else value for value in row]
                marks = ", ".join("?" * len(columns))
                saved += db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", values).rowcount
    saved += _restore_sessions(db)
    # A row whose home was lost can't be shown; its log, if it is still there, is read anew.
    for table in ("events", "deeds", "unrecorded"):
        gone = "session NOT IN (SELECT id FROM sessions) OR home NOT IN (SELECT id FROM homes)"
        saved -= db.execute(f"DELETE FROM {table} WHERE {gone}").rowcount
    saved -= db.execute("DELETE FROM sessions WHERE home NOT IN (SELECT id FROM homes)").rowcount
    rebuild_sums(db)
    db.execute("COMMIT")
    old.close()
    return saved


def _list_foreign(old: sqlite3.Connection, db: sqlite3.Connection) -> set[object]:
    """Numbers of sessions that mean another session here: an older copy may have used them otherwise."""
    query = "SELECT id, home, CAST(scope AS BLOB), CAST(session_id AS BLOB) FROM sessions"
    here = {row[0]: row for row in db.execute(query)}
    with suppress(sqlite3.Error):
        return {row[0] for row in old.execute(query) if here.get(row[0], row) != row}
    return set()


def _read_table(old: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[tuple[object, ...]]:
    """Rows from the start to the first bad page, then from the end back to it."""
    try:
        there = {row[1].decode() for row in old.execute(f"PRAGMA table_info({table})")}
    except sqlite3.Error:
        return
    wanted = ", ".join(name if name in there else _absent(name) for name in columns)
    orders = ("rowid", "rowid DESC") if "id" in columns else ("home, key", "home DESC, key DESC")
    for order in orders:
        with suppress(sqlite3.Error):
            yield from old.execute(f"SELECT {wanted} FROM {table} NOT INDEXED ORDER BY {order}")
            return
    if table == "homes":  # its index has all of it once more
        with suppress(sqlite3.Error):
            yield from old.execute("SELECT id, provider, path FROM homes INDEXED BY sqlite_autoindex_homes_1")


def _restore_sessions(db: sqlite3.Connection) -> int:
    """Sessions whose own row was lost, from the ranks of what they own (see ledger_rows)."""
    found = 0
    for table in ("events", "deeds", "unrecorded"):
        lost = db.execute(
            f"SELECT session, home, min(rank) FROM {table} WHERE session NOT IN (SELECT id FROM sessions)"
            f" AND rank < '{SHARED}' GROUP BY 1, 2"
        ).fetchall()
        for session, home, rank in lost:
            session_id, _, scope = rank[2:].partition("/")
            found += db.execute(
                "INSERT OR IGNORE INTO sessions (id, home, scope, session_id, has_log) VALUES (?, ?, ?, ?, 1)",
                (session, home, scope, session_id),
            ).rowcount
    return found


def _absent(name: str) -> str:
    """What stands for a column that an early ledger does not have."""
    return {"assumed": "0", "ambiguous": "0", "has_log": "1"}.get(name, "NULL")
