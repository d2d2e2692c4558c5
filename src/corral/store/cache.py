"""cache.db: what earlier surveys read, and pins of verified processes. Disposable; a broken one is only slow."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from corral.model.process import ProcessIdentity
from corral.model.record import SessionRecord
from corral.version import __version__

# Records are encoded by the classes of this version: another one starts afresh.
_SHAPE = f"{__version__} {' '.join(SessionRecord.__struct_fields__)}"
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS about (version TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    path TEXT PRIMARY KEY, provider TEXT NOT NULL, home TEXT NOT NULL,
    fingerprint INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS records_by_home ON records (provider, home);
CREATE TABLE IF NOT EXISTS pins (
    path TEXT NOT NULL, pid INTEGER NOT NULL, written_at REAL NOT NULL,
    boot_id TEXT NOT NULL, pid_ns INTEGER NOT NULL, start_ticks INTEGER NOT NULL,
    PRIMARY KEY (path, pid, written_at)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (
    path TEXT PRIMARY KEY, device INTEGER NOT NULL, inode INTEGER NOT NULL, changed_ns INTEGER NOT NULL,
    said TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO about SELECT '{_SHAPE}' WHERE NOT EXISTS (SELECT 1 FROM about);
"""
_TABLES = ("about", "records", "pins", "versions")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SessionRecord).decode


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
        except sqlite3.DatabaseError:
            # Nothing in it is worth saving.
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(self.path + suffix)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.close(fd)
        db = sqlite3.connect(self.path, timeout=0.2, isolation_level=None)
        db.execute("PRAGMA synchronous = OFF")
        try:
            row = db.execute("SELECT version FROM about").fetchone()
        except sqlite3.OperationalError:
            row = None
        if row == (_SHAPE,):
            return db
        for table in _TABLES:
            db.execute(f"DROP TABLE IF EXISTS {table}")
        db.executescript(_SCHEMA)
        return db

    def known(self, provider: str, home: str) -> KnownRecords:
        """What is known of one home; hand it back to `keep` after the listing."""
        if self._db is None:
            return KnownRecords(provider, home, ())
        try:
            rows = self._db.execute(
                "SELECT path, fingerprint, record FROM records WHERE provider = ? AND home = ?",
                (provider, home),
            ).fetchall()
        except sqlite3.Error as error:
            self.problem = str(error)
            rows = []
        return KnownRecords(provider, home, rows)

    def keep(self, known: KnownRecords) -> None:
        """Store what the listing read anew, forget what it no longer met."""
        fresh, gone = known.changes()
        if not fresh and not gone:
            return

        def store(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)", fresh)
            db.executemany("DELETE FROM records WHERE path = ?", gone)

        self._write(store)

    def find_pin(self, path: str, pid: int, written_at: float) -> ProcessIdentity | None:
        """The process that this very record was verified against before."""
        if self._db is None:
            return None
        try:
            row = self._db.execute(
                "SELECT boot_id, pid_ns, pid, start_ticks FROM pins WHERE path = ? AND pid = ? AND written_at = ?",
                (path, pid, written_at),
            ).fetchone()
        except sqlite3.Error as error:
            self.problem = str(error)
            return None
        return ProcessIdentity(*row) if row else None

    def keep_pins(self, pins: Iterable[tuple[str, float, ProcessIdentity]]) -> None:
        """Pin verified records (path, written_at, process). A path keeps its newest few only."""
        rows = [(path, who.pid, at, who.boot_id, who.pid_ns, who.start_ticks) for path, at, who in pins]
        if not rows:
            return

        def store(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM pins WHERE path = ? AND pid = ?", [(row[0], row[1]) for row in rows])
            db.executemany("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?, ?, ?)", rows)

        self._write(store)

    def find_version(self, path: str) -> str | None:
        """What this very program once said of its version."""
        if self._db is None:
            return None
        try:
            status = os.stat(path)
            row = self._db.execute(
                "SELECT said FROM versions WHERE path = ? AND device = ? AND inode = ? AND changed_ns = ?",
                (path, status.st_dev, status.st_ino, status.st_ctime_ns),
            ).fetchone()
        except (OSError, sqlite3.Error):
            return None
        return row[0] if row else None

    def keep_version(self, path: str, said: str) -> None:
        try:
            status = os.stat(path)
        except OSError:
            return
        row = (path, status.st_dev, status.st_ino, status.st_ctime_ns, said)
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
                self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            self.problem = str(error)  # busy or full: the next survey reads anew

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


class KnownRecords:
    """The records of one home as an earlier survey read them, each valid only for an equal fingerprint."""

    def __init__(self, provider: str, home: str, rows: Iterable[tuple[str, int, bytes]]) -> None:
        self._provider = provider
        self._home = home
        self._rows = {path: (fingerprint, record) for path, fingerprint, record in rows}
        self._met: set[str] = set()
        self._fresh: list[tuple[str, int, SessionRecord]] = []

    def find(self, path: str, fingerprint: tuple[int, ...]) -> SessionRecord | None:
        row = self._rows.get(path)
        # The hash of a tuple of integers is the same in every run.
        if row is None or row[0] != hash(fingerprint):
            return None
        try:
            record = _decode(row[1])
        except (msgspec.DecodeError, msgspec.ValidationError):
            return None
        self._met.add(path)
        return record

    def keep(self, path: str, fingerprint: tuple[int, ...], record: SessionRecord) -> None:
        self._met.add(path)
        self._fresh.append((path, hash(fingerprint), record))

    def changes(self) -> tuple[list[tuple[str, str, str, int, bytes]], list[tuple[str]]]:
        """Rows to store, and paths to forget."""
        fresh = [(path, self._provider, self._home, mark, _encode(record)) for path, mark, record in self._fresh]
        return fresh, [(path,) for path in self._rows if path not in self._met]
