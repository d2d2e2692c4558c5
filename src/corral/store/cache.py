"""cache.db: what earlier surveys read, and pins of verified processes. Disposable; a broken one is only slow."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property

import msgspec

from corral.model.process import ProcessIdentity
from corral.model.record import SessionRecord
from corral.version import __version__

# Records are encoded by the classes of this version: another one starts afresh.
_SHAPE = f"{__version__} {' '.join(SessionRecord.__struct_fields__)}"
_TABLES = {
    "about": "(shape TEXT NOT NULL)",
    "records": """(
        provider TEXT NOT NULL, home BLOB NOT NULL, directory BLOB NOT NULL, entries BLOB NOT NULL,
        PRIMARY KEY (provider, home, directory))""",
    "pins": """(
        path BLOB NOT NULL, pid INTEGER NOT NULL, written_at REAL NOT NULL,
        boot_id TEXT NOT NULL, pid_ns INTEGER NOT NULL, start_ticks INTEGER NOT NULL,
        PRIMARY KEY (path, pid, written_at)) WITHOUT ROWID""",
    "versions": """(
        path BLOB PRIMARY KEY, device INTEGER NOT NULL, inode INTEGER NOT NULL, changed_ns INTEGER NOT NULL,
        said TEXT NOT NULL) WITHOUT ROWID""",
}

_Entry = tuple[str, int, SessionRecord]
"""A path, the fingerprint it had, and what was read there."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Entry]).decode


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
        if not _has_our_shape(db):
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
        return KnownRecords(provider, home, lambda: self._read_records(provider, home))

    def _read_records(self, provider: str, home: str) -> list[_Entry]:
        entries: list[_Entry] = []
        if self._db is None:
            return entries
        try:
            rows = self._db.execute(
                "SELECT entries FROM records WHERE provider = ? AND home = ?", (provider, os.fsencode(home))
            ).fetchall()
            for (blob,) in rows:
                entries += _decode(blob)
        except sqlite3.Error as error:
            self.problem = str(error)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return []
        return entries

    def keep(self, known: KnownRecords) -> None:
        """Store what the listing read anew, forget what it no longer met: the directories concerned, whole."""
        changed = known.changed_directories()
        if not changed:
            return

        def store(db: sqlite3.Connection) -> None:
            for directory, entries in changed.items():
                where = (known.provider, os.fsencode(known.home), os.fsencode(directory))
                if entries:
                    db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", (*where, _encode(entries)))
                else:
                    db.execute("DELETE FROM records WHERE provider = ? AND home = ? AND directory = ?", where)

        self._write(store)

    def find_pin(self, path: str, pid: int, written_at: float) -> ProcessIdentity | None:
        """The process that this very record was verified against before."""
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

    def find_version(self, path: str) -> str | None:
        """What this very program once said of its version."""
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
                self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            self.problem = str(error)  # busy or full: the next survey reads anew
        except UnicodeEncodeError:
            pass  # a path that is no UTF-8: read anew each time

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


class KnownRecords:
    """The records of one home as an earlier survey read them, each valid only for an equal fingerprint."""

    def __init__(self, provider: str, home: str, read: Callable[[], Iterable[_Entry]]) -> None:
        self.provider = provider
        self.home = home
        self._read = read
        self._met: set[str] = set()
        self._fresh: list[str] = []

    def load(self) -> None:
        """Read now what would be read at the first `find`."""
        _ = self._entries

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        return {entry[0]: entry for entry in self._read()}

    def find(self, path: str, fingerprint: tuple[int, ...]) -> SessionRecord | None:
        entry = self._entries.get(path)
        # The hash of a tuple of integers is the same in every run.
        if entry is None or entry[1] != hash(fingerprint):
            return None
        self._met.add(path)
        return entry[2]

    def keep(self, path: str, fingerprint: tuple[int, ...], record: SessionRecord) -> None:
        self._met.add(path)
        self._fresh.append(path)
        self._entries[path] = (path, hash(fingerprint), record)

    def changed_directories(self) -> dict[str, list[_Entry]]:
        """What to store for each directory in which something is new or gone."""
        gone = self._entries.keys() - self._met
        changed = {os.path.dirname(path) for path in (*self._fresh, *gone)}
        if not changed:
            return {}
        kept: dict[str, list[_Entry]] = {directory: [] for directory in changed}
        for path, entry in self._entries.items():
            if path in self._met and (directory := os.path.dirname(path)) in changed:
                kept[directory].append(entry)
        return kept
