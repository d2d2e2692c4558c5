"""cache.db: what earlier surveys read, and pins of verified processes. Without it a survey is only slower."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from corral.model.known import BrokenCache
from corral.model.process import ProcessIdentity
from corral.model.record import Resting, SessionRecord
from corral.model.verdict import State
from corral.sessions.decide.state import decide_resting
from corral.state.private_file import make_private
from corral.version import __version__

_TABLES = {
    "about": "(shape TEXT NOT NULL)",
    "records": """(
        provider TEXT NOT NULL, home BLOB NOT NULL, directory BLOB NOT NULL,
        fingerprint BLOB NOT NULL, resting_ids BLOB NOT NULL, notable BLOB NOT NULL, resting BLOB NOT NULL,
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
# Records are encoded by the classes of this version: another one starts with an empty cache.
_SHAPE = " ".join((__version__, *_TABLES.values(), *SessionRecord.__struct_fields__))
_DEATHS_KEPT_S = 40 * 86_400.0
"""Longer than the journal of a dead process is kept."""


def _has_our_shape(db: sqlite3.Connection) -> bool:
    try:
        return db.execute("SELECT shape FROM about").fetchone() == (_SHAPE,)
    except sqlite3.OperationalError:
        return False


def _identify_program(path: str) -> tuple[bytes, int, int, int] | None:
    """Its path, device, inode and time of change: other ones may be another version."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return os.fsencode(path), status.st_dev, status.st_ino, status.st_ctime_ns


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
        """Delete the file: nothing in it is worth saving."""
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
        return KnownRecords(provider, home, lambda: self._read_directories(provider, home))

    def _read_directories(self, provider: str, home: str) -> list[CachedDirectory]:
        rows = self._select(
            "SELECT directory, fingerprint, resting_ids, notable, resting FROM records WHERE provider = ? AND home = ?",
            (provider, os.fsencode(home)),
        )
        return [CachedDirectory(os.fsdecode(row[0]), *row[1:]) for row in rows]

    def keep(self, known: KnownRecords) -> None:
        """Store what the listing read again and forget what it did not find, by whole directories."""
        changed = known.changes()
        if not changed:
            return

        def store(db: sqlite3.Connection) -> None:
            for directory, cached in changed.items():
                where = (known.provider, os.fsencode(known.home), os.fsencode(directory))
                if cached is not None:
                    db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", (*where, *cached[1:]))
                else:
                    db.execute("DELETE FROM records WHERE provider = ? AND home = ? AND directory = ?", where)

        self._write(store)

    def find_pin(self, path: str, pid: int, written_at: float) -> ProcessIdentity | None:
        """The process that this record was verified against before."""
        rows = self._select(
            "SELECT boot_id, pid_ns, pid, start_ticks FROM pins WHERE path = ? AND pid = ? AND written_at = ?",
            (os.fsencode(path), pid, written_at),
        )
        return ProcessIdentity(*rows[0]) if rows else None

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
        known = {one: rows[0][0] for one in dead if (rows := self._select(asked, one))}
        if new := [one for one in dict.fromkeys(dead) if one not in known]:

            def store(db: sqlite3.Connection) -> None:
                db.execute("DELETE FROM deaths WHERE seen_at < ?", (seen_at - _DEATHS_KEPT_S,))
                db.executemany("INSERT OR IGNORE INTO deaths VALUES (?, ?, ?, ?, ?)", [(*one, seen_at) for one in new])

            self._write(store)
        return {one: known.get(one, seen_at) for one in dead}

    def find_version(self, path: str) -> str | None:
        """The version that this program reported earlier."""
        if (program := _identify_program(path)) is None:
            return None
        rows = self._select(
            "SELECT said FROM versions WHERE path = ? AND device = ? AND inode = ? AND changed_ns = ?", program
        )
        return rows[0][0] if rows else None

    def keep_version(self, path: str, said: str) -> None:
        if (program := _identify_program(path)) is not None:
            row = (*program, said)
            self._write(lambda db: db.execute("INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?)", row))

    def _select(self, question: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """The rows; none also where the file can't be used, and then `problem` says why."""
        if self._db is None:
            return []
        try:
            return self._db.execute(question, values).fetchall()
        except sqlite3.Error as error:
            self.problem = str(error)
            return []

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
            self.problem = str(error)  # busy or full: the next survey reads again

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


# --- the records of one home: a whole directory at once, or one by one


_Entry = tuple[str, int, SessionRecord]
"""A path, the fingerprint it had, and what was read there."""

_encode = msgspec.msgpack.Encoder().encode
_decode_entries = msgspec.msgpack.Decoder(list[_Entry]).decode
_decode_ids = msgspec.msgpack.Decoder(tuple[list[str], float]).decode


class CachedDirectory(NamedTuple):
    """What is known of one directory. Nothing is decoded until it is needed."""

    directory: str
    fingerprint: bytes
    """What the directory looked like as a whole; empty when it was still changing."""
    resting_ids: bytes
    """The ids of the entries in `resting`, and when the newest record of them was written."""
    notable: bytes
    """Entries that a survey wants to see: not idle, or with a runtime.json beside them."""
    resting: bytes
    """All other entries."""


class KnownRecords:
    """What the cache has of one home. A record, or a whole directory, is valid only for an equal fingerprint."""

    def __init__(self, provider: str, home: str, read: Callable[[], Iterable[CachedDirectory]]) -> None:
        self.provider = provider
        self.home = home
        self._read = read
        self._cached: dict[str, CachedDirectory] | None = None
        self._settled: set[str] = set()
        """Directories that were found as they had been."""
        self._open: dict[str, _Directory] = {}
        """Directories that were listed one by one."""

    def load(self) -> None:
        """Read now what would be read at the first question."""
        if self._cached is None:
            self._cached = {cached.directory: cached for cached in self._read()}

    def find_settled(self, directory: str, fingerprint: bytes) -> list[SessionRecord | Resting] | None:
        """All sessions of a directory in which nothing has changed, else None."""
        cached = self._find_cached(directory)
        if cached is None or cached.fingerprint != fingerprint:
            return None
        try:
            notable = _decode_entries(cached.notable)
            ids, recorded_at = _decode_ids(cached.resting_ids)
        except msgspec.DecodeError:
            return None
        self._settled.add(directory)
        found: list[SessionRecord | Resting] = [entry[2] for entry in notable]
        if ids:
            found.append(Resting(ids, lambda: _load_resting(cached), recorded_at))
        return found

    def find(self, path: str, fingerprint: tuple[int, ...]) -> SessionRecord | None:
        return self._directory(path).find(path, fingerprint)

    def keep(self, path: str, fingerprint: tuple[int, ...], record: SessionRecord) -> None:
        self._directory(path).keep(path, fingerprint, record)

    def settle(self, directory: str, fingerprint: bytes) -> None:
        """Every session of the directory was found or kept just now, and it looks like this as a whole."""
        if directory in self._open:
            self._open[directory].fingerprint = fingerprint

    def changes(self) -> dict[str, CachedDirectory | None]:
        """What to store for each directory in which something is new or gone; None when nothing is left of it."""
        self.load()
        changed: dict[str, CachedDirectory | None] = {}
        for name, directory in self._open.items():
            if directory.has_changed():
                try:
                    changed[name] = directory.to_cache()
                except UnicodeEncodeError:
                    changed[name] = None  # a path that is not UTF-8: read again each time
        gone = (self._cached or {}).keys() - self._settled - self._open.keys()
        return changed | dict.fromkeys(gone)

    def _find_cached(self, directory: str) -> CachedDirectory | None:
        self.load()
        return (self._cached or {}).get(directory)

    def _directory(self, path: str) -> _Directory:
        name = os.path.dirname(path)
        found = self._open.get(name)
        if found is None:
            found = self._open[name] = _Directory(name, self._find_cached(name))
        return found


class _Directory:
    """One directory whose sessions are asked for one by one."""

    def __init__(self, name: str, cached: CachedDirectory | None) -> None:
        self._name = name
        self._fingerprint_before = cached.fingerprint if cached is not None else b""
        self._entries = _decode_all(cached) if cached is not None else {}
        self._met: set[str] = set()
        self._is_fresh = False
        self.fingerprint = b""

    def find(self, path: str, fingerprint: tuple[int, ...]) -> SessionRecord | None:
        entry = self._entries.get(path)
        # The hash of a tuple of integers is the same in every run.
        if entry is None or entry[1] != hash(fingerprint):
            return None
        self._met.add(path)
        return entry[2]

    def keep(self, path: str, fingerprint: tuple[int, ...], record: SessionRecord) -> None:
        self._met.add(path)
        self._is_fresh = True
        self._entries[path] = (path, hash(fingerprint), record)

    def has_changed(self) -> bool:
        return self._is_fresh or self.fingerprint != self._fingerprint_before or len(self._met) < len(self._entries)

    def to_cache(self) -> CachedDirectory | None:
        kept = [entry for path, entry in self._entries.items() if path in self._met]
        if not kept:
            return None
        resting: list[_Entry] = []
        notable: list[_Entry] = []
        for entry in kept:
            record = entry[2]
            is_resting = record.sidecar is None and decide_resting(record)[0] is State.IDLE
            (resting if is_resting else notable).append(entry)
        ids = [entry[2].session_id for entry in resting]
        recorded_at = max((entry[2].recorded_at or 0.0 for entry in resting), default=0.0)
        return CachedDirectory(
            self._name, self.fingerprint, _encode((ids, recorded_at)), _encode(notable), _encode(resting)
        )


def _load_resting(cached: CachedDirectory) -> list[SessionRecord]:
    try:
        return [entry[2] for entry in _decode_entries(cached.resting)]
    except msgspec.DecodeError as error:
        raise BrokenCache(str(error)) from error


def _decode_all(cached: CachedDirectory) -> dict[str, _Entry]:
    try:
        entries = _decode_entries(cached.notable) + _decode_entries(cached.resting)
    except msgspec.DecodeError:
        return {}
    return {entry[0]: entry for entry in entries}
