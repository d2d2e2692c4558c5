"""Saving what can still be read of a broken ledger."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from corral.store.ledger_header import with_sound_header
from corral.store.ledger_sums import rebuild_sums
from corral.store.private_file import flush, read_only_uri

_TABLES = ("homes", "sessions", "events", "deeds", "unrecorded")
_INDEXED = {
    "homes": "SELECT id, provider, path FROM homes",
    "sessions": "SELECT id, home, scope, session_id, NULL, 1 FROM sessions",
}
"""Tables of which an index has all that matters once more."""


def keep_broken(path: str) -> str:
    """Give a broken ledger, and what its log still holds, a second name that nothing else has.

    The first name goes only when a new ledger takes it: who is killed before has lost nothing.
    """
    stamp, number = time.strftime("%Y%m%dT%H%M%S"), 1
    while os.path.lexists(broken := f"{path}.broken-{stamp}" + (f"-{number}" if number > 1 else "")):
        number += 1
    for suffix in ("-wal", ""):
        with suppress(FileNotFoundError):
            try:
                os.link(path + suffix, broken + suffix)
            except FileNotFoundError:
                raise
            except OSError:  # a filesystem without links
                shutil.copyfile(path + suffix, broken + suffix)
                os.chmod(broken + suffix, 0o600)
    return broken


def put_in_place(db: sqlite3.Connection, made: str, path: str) -> None:
    """Let a ledger that is whole stand at `path`, on the disk, without the log of the one before."""
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
    flush(made)
    os.replace(made, path)
    flush(os.path.dirname(path))


def salvage(broken: str, db: sqlite3.Connection) -> int:
    """Copy every row that can still be read, table by table; how many there were.

    Prices and sums are made anew: nothing says by which prices the rows were priced.
    """
    (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
    try:
        with with_sound_header(broken, page_bytes) as path:
            return _salvage(path, db)
    except OSError:  # there is no room for a copy
        return _salvage(broken, db)


def _salvage(broken: str, db: sqlite3.Connection) -> int:
    try:
        old = sqlite3.connect(read_only_uri(broken), uri=True)
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
                _modernise(db, dict(zip(columns, range(len(columns)), strict=True)), values)
                marks = ", ".join("?" * len(columns))
                saved += db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", values).rowcount
    # A row whose home or session was lost can't be shown; its log, if it is still there, is read anew.
    saved -= db.execute("DELETE FROM sessions WHERE home NOT IN (SELECT id FROM homes)").rowcount
    for table in ("events", "deeds", "unrecorded"):
        saved -= db.execute(f"DELETE FROM {table} WHERE session NOT IN (SELECT id FROM sessions)").rowcount
    rebuild_sums(db)
    db.execute("COMMIT")
    old.close()
    return saved


def _modernise(db: sqlite3.Connection, places: dict[str, int], values: list[Any]) -> None:
    """Before schema 3 an event was known by the provider's own id, and a rank began with two digits."""
    if "key" in places and isinstance(values[places["key"]], str):
        from corral.store.row_making import digest

        query = "SELECT provider FROM homes JOIN sessions ON homes.id = home WHERE sessions.id = ?"
        found = db.execute(query, (values[places["session"]],)).fetchone()
        values[places["key"]] = digest(found[0] if found else "", values[places["key"]])
        values[places["rank"]] = int(values[places["rank"]][:2])


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
    for order in ("rowid", "rowid DESC"):
        with suppress(sqlite3.Error):
            yield from old.execute(f"SELECT {wanted} FROM {table} NOT INDEXED ORDER BY {order}")
            return
    if table in _INDEXED:
        with suppress(sqlite3.Error):
            yield from old.execute(f"{_INDEXED[table]} INDEXED BY sqlite_autoindex_{table}_1")


def _absent(name: str) -> str:
    """What stands for a column that an early ledger does not have."""
    return {"assumed": "0", "ambiguous": "0", "has_log": "1"}.get(name, "NULL")
