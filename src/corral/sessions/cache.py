"""cache.db: what earlier surveys saw, and pins of verified processes. Disposable; a broken one is only slow."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from corral.model.process import ProcessIdentity
from corral.model.record import SessionRecord
from corral.sessions.known import KnownRecords, Shelf
from corral.state.private_file import make_private
from corral.version import __version__

_TABLES = {
    "about": "(shape TEXT NOT NULL)",
    "records": """(
        provider TEXT NOT NULL, home BLOB NOT NULL, directory BLOB NOT NULL,
        seal BLOB NOT NULL, resting_ids BLOB NOT NULL, notable BLOB NOT NULL, resting BLOB NOT NULL,
        PRIMARY KEY (provider, home, directory))""",
    "pins": """(
        path BLOB NOT NULL, pid INTEGER NOT NULL, written_at REAL NOT NULL,
        boot_id TEXT NOT NULL, pid_ns INTEGER NOT NULL, start_ticks INTEGER NOT NULL,
        PRIMARY KEY (path, pid, written_at)) WITHOUT ROWID""",
    "versions": """(
        path BLOB PRIMARY KEY, device INTEGER NOT NULL, inode INTEGER NOT NULL, changed_ns INTEGER NOT NULL,
        said TEXT NOT NULL) WITHOUT ROWID""",
    "deaths": """(
        boot_id TEXT NOT NULL, pid_ns INTEGER NOT NULL, pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL,
        seen_at REAL NOT NULL, PRIMARY KEY (boot_id, pid_ns, pid, start_ticks)) WITHOUT ROWID""",
}
# Records are encoded by the classes of this version: another one starts afresh.
_SHAPE = f"{__version__} {' '.join((*_TABLES, *SessionRecord.__struct_fields__))}"
_DEATHS_KEPT_S = 40 * 86_400.0
"""Longer than the journal of a dead process is kept."""


def _has_our_shape(db: sqlite3.Connection) -> bool:
    try:
        return db.execute("SELECT shape FROM about").fetchone() == (_SHAPE,)
    except sqlite3.OperationalError:
        return False


class Cache:
    """All methods are best effort: without a usable file nothing is known and nothing is kept.

    `problem` says why, for `doctor`.
    """

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "cache.db")
        self.problem: str | None = None
        self._db: sqlite3.Connection | None = None
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            self._db = self._open()
        except (OSError, sqlite3.Error) as error:
            self.problem = str(error)

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.OperationalError:
            raise  # locked, full, read-only: there may be nothing wrong with the file
        except sqlite3.DatabaseError:
            self.discard()
            return self._connect()

    def discard(self) -> None:
        """Nothing in it is worth saving."""
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(self.path + suffix)

    def _connect(self) -> sqlite3.Connection:
        make_private(self.path)
        db = sqlite3.connect(self.path, timeout=0.2, isolation_level=None)
        db.execute("PRAGMA synchronous = OFF")
        if not _has_our_shape(db):
            db.execute("PRAGMA page_size = 65536")  # whole directories are read at once
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            if not _has_our_shape(db):  # another process may have been quicker
                for table, columns in _TABLES.items():
                    db.execute(f"DROP TABLE IF EXISTS {table}")
                    db.execute(f"CREATE TABLE {table} {columns}")
                db.execute("INSERT INTO about VALUES (?)", (_SHAPE,))
            db.execute("COMMIT")
        return db

    def known(self, provider: str, home: str) -> KnownRecords:
        """What is known of one home, read when first asked for; hand it back to `keep` after the listing."""
        return KnownRecords(provider, home, lambda: self._read_shelves(provider, home))

    def _read_shelves(self, provider: str, home: str) -> list[Shelf]:
        if self._db is None:
            return []
        try:
            rows = self._db.execute(
                "SELECT directory, seal, resting_ids, notable, resting FROM records WHERE provider = ? AND home = ?",
                (provider, os.fsencode(home)),
            ).fetchall()
        except sqlite3.Error as error:
            self.problem = str(error)
            return []
        return [Shelf(os.fsdecode(row[0]), *row[1:]) for row in rows]

    def keep(self, known: KnownRecords) -> None:
        """Store what the listing has read again and forget what it did not meet, by whole directories."""
        changed = known.changes()
        if not changed:
            return

        def store(db: sqlite3.Connection) -> None:
            for directory, shelf in changed.items():
                where = (known.provider, os.fsencode(known.home), os.fsencode(directory))
                if shelf is not None:
                    db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", (*where, *shelf[1:]))
                else:
                    db.execute("DELETE FROM records WHERE provider = ? AND home = ? AND directory = ?", where)

        self._write(store)

    def find_pin(self, path: str, pid: int, written_at: float) -> ProcessIdentity | None:
        """The process that this record was verified against before."""
        if self._db is None:
            return None
        try:
            row = self._db.execute(
                "SELECT boot_id, pid_ns, pid, start_ticks FROM pins WHERE path = ? AND pid = ? AND written_at = ?",
                (os.fsencode(path), pid, written_at),
            ).fetchone()
        except sqlite3.Error as error:
            self.problem = str(error)
            return None
        return ProcessIdentity(*row) if row else None

    def keep_pins(self, pins: Iterable[tuple[str, float, ProcessIdentity]]) -> None:
        """Pin verified records (path, written_at, process). A path keeps its newest few only."""
        rows = [(os.fsencode(path), who.pid, at, who.boot_id, who.pid_ns, who.start_ticks) for path, at, who in pins]
        if not rows:
            return

        def store(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM pins WHERE path = ? AND pid = ?", [(row[0], row[1]) for row in rows])
            db.executemany("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?, ?, ?)", rows)

        self._write(store)

    def note_deaths(self, dead: Collection[ProcessIdentity], seen_at: float) -> Mapping[ProcessIdentity, float]:
        """When each of these dead processes was first seen to be dead: in an earlier survey, or now."""
        if self._db is None or not dead:
            return {}
        asked = "SELECT seen_at FROM deaths WHERE boot_id = ? AND pid_ns = ? AND pid = ? AND start_ticks = ?"
        try:
            known = {one: row[0] for one in dead if (row := self._db.execute(asked, one).fetchone())}
        except sqlite3.Error as error:
            self.problem = str(error)
            return {}
        if new := [one for one in dict.fromkeys(dead) if one not in known]:

            def store(db: sqlite3.Connection) -> None:
                db.execute("DELETE FROM deaths WHERE seen_at < ?", (seen_at - _DEATHS_KEPT_S,))
                db.executemany("INSERT OR IGNORE INTO deaths VALUES (?, ?, ?, ?, ?)", [(*one, seen_at) for one in new])

            self._write(store)
        return {one: known.get(one, seen_at) for one in dead}

    def find_version(self, path: str) -> str | None:
        """The version that this program reported earlier."""
        if self._db is None:
            return None
        try:
            status = os.stat(path)
            row = self._db.execute(
                "SELECT said FROM versions WHERE path = ? AND device = ? AND inode = ? AND changed_ns = ?",
                (os.fsencode(path), status.st_dev, status.st_ino, status.st_ctime_ns),
            ).fetchone()
        except (OSError, sqlite3.Error):
            return None
        return row[0] if row else None

    def keep_version(self, path: str, said: str) -> None:
        try:
            status = os.stat(path)
        except OSError:
            return
        row = (os.fsencode(path), status.st_dev, status.st_ino, status.st_ctime_ns, said)
        self._write(lambda db: db.execute("INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?)", row))

    def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        if self._db is None:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                change(self._db)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # after some errors SQLite has rolled back by itself
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            self.problem = str(error)  # busy or full: the next survey reads anew

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
