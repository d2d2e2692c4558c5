"""ledger.db: every request that a provider recorded, once, kept also when the CLI deletes its logs.

Standard library only: a report that finds nothing new must not pay for more.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress

from corral.store.ledger_writer import STATE_COLUMNS, Reading, SourceState, Writer, store_state
from corral.version import __version__

__all__ = ["SCHEMA", "Ledger", "Reading", "SourceState"]

SCHEMA = 1
_BUSY_SECONDS = 30.0


class Ledger:
    """One file, several processes: readers never wait, writers take turns."""

    def __init__(self, state_dir: str) -> None:
        """Raises OSError or sqlite3.Error when there can be no ledger at all."""
        self.path = os.path.join(state_dir, "ledger.db")
        self.notice: str | None = None
        """Something a person should know: it is newer than this corral, or was set aside and rebuilt."""
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        self.read_only = False
        try:
            self.db = self._open()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            self.db = self._rebuild(str(error))

    def _open(self) -> sqlite3.Connection:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.close(fd)
        db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        db.execute("PRAGMA synchronous = FULL")
        found = _find_schema(db)
        if found is None:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            if _find_schema(db) is None:
                for statement in _read_schema().split(";\n"):
                    db.execute(statement)
                db.execute("INSERT INTO about VALUES (?, ?)", (SCHEMA, __version__))
            db.execute("COMMIT")
        elif found > SCHEMA:
            db.close()
            self.read_only = True
            self.notice = f"{self.path} was made by a newer corral (schema {found}): it is read, and not written"
            db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        return db

    def _rebuild(self, why: str) -> sqlite3.Connection:
        """Set a broken file aside, save what can be read of it, and go on with a new one."""
        aside = f"{self.path}.broken-{time.strftime('%Y%m%dT%H%M%S')}"
        os.rename(self.path, aside)
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(self.path + suffix, aside + suffix)
        db = self._open()
        saved = _salvage(aside, db)
        self.notice = f"the ledger was broken ({why}): it is now {aside}; {saved} rows were saved, logs are read anew"
        return db

    def source_states(self) -> dict[str, SourceState]:
        """Every file that was ever read."""
        rows = self.db.execute(f"SELECT path, {STATE_COLUMNS} FROM sources")
        return {row[0]: SourceState(*row[1:]) for row in rows}

    def find_source(self, path: str) -> SourceState | None:
        """One file or directory as it was when it was last read."""
        row = self.db.execute(f"SELECT {STATE_COLUMNS} FROM sources WHERE path = ?", (path,)).fetchone()
        return SourceState(*row) if row else None

    def home_paths(self, provider: str) -> list[str]:
        """The homes of a provider that were ever read or reported."""
        return [row[0] for row in self.db.execute("SELECT path FROM homes WHERE provider = ? ORDER BY 1", (provider,))]

    def note_homes(self, provider: str, paths: Iterable[str], source: str, state: SourceState) -> None:
        """Keep homes that are known from somewhere else, with how that was when it was read."""
        self.db.execute("BEGIN IMMEDIATE")
        rows = [(provider, path) for path in sorted(paths)]
        self.db.executemany("INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)", rows)
        store_state(self.db, source, state)
        self.db.execute("COMMIT")

    def store(self, readings: Iterable[Reading]) -> None:
        """All of them or none: a reading and how far it came are one."""
        if self.read_only:
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            writer = Writer(self.db)
            for reading in readings:
                writer.write(reading)
            self.db.execute("COMMIT")
        except BaseException:
            self.db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self.db.close()


def _find_schema(db: sqlite3.Connection) -> int | None:
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
        return None
    row = db.execute("SELECT schema FROM about").fetchone()
    return row[0] if row else None


def _read_schema() -> str:
    with open(os.path.join(os.path.dirname(__file__), "ledger.sql"), encoding="utf-8") as file:
        return file.read()


def _salvage(broken: str, db: sqlite3.Connection) -> int:
    """Copy every row that can still be read, table by table; how many there were."""
    saved = 0
    try:
        old = sqlite3.connect(f"file:{broken}?mode=ro", uri=True)
    except sqlite3.Error:
        return 0
    with suppress(sqlite3.Error):
        for table in ("homes", "sessions", "events", "deeds", "unrecorded"):
            with suppress(sqlite3.Error):
                rows = old.execute(f"SELECT * FROM {table}")
                marks = ", ".join("?" * len(rows.description))
                for row in rows:
                    db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)
                    saved += 1
    old.close()
    return saved
