"""ledger.db: every request that a provider recorded, once, kept also when the CLI deletes its logs.

Standard library only: a report that finds nothing new must not pay for more.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from corral.version import __version__

if TYPE_CHECKING:
    from corral.model.usage import UsageBatch, UsageEvent, UsageSource

SCHEMA = 1
_BUSY_SECONDS = 30.0


class SourceState(NamedTuple):
    """A file as it was when it was last read."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    head: int
    head_size: int
    offset: int


class Reading(NamedTuple):
    """What one reading of one file gave, to be stored in one piece with how far it came."""

    source: UsageSource
    state: SourceState
    batch: UsageBatch
    models: Sequence[tuple[str | None, str]]
    """For each event of the batch: the model and how it is known."""


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
        rows = self.db.execute("SELECT path, device, inode, size, mtime_ns, head, head_size, offset FROM sources")
        return {row[0]: SourceState(*row[1:]) for row in rows}

    def store(self, readings: Iterable[Reading]) -> None:
        """All of them or none: a reading and how far it came are one."""
        if self.read_only:
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            writer = _Writer(self.db)
            for reading in readings:
                writer.write(reading)
            self.db.execute("COMMIT")
        except BaseException:
            self.db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self.db.close()


class _Writer:
    """Stores readings within one transaction; homes and sessions are looked up once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._homes: dict[tuple[str, str], int] = {}
        self._sessions: dict[tuple[int, str, str], int] = {}

    def write(self, reading: Reading) -> None:
        source, batch = reading.source, reading.batch
        home = self._home(source.provider, source.home)
        self._store_source(reading)
        self._db.executemany(
            "INSERT INTO events (session, key, home, rank, at, agent, model, model_source, input, cache_read,"
            " cache_write, cache_write_1h, output, reasoning, branch)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (home, key) DO UPDATE SET session = excluded.session, rank = excluded.rank,"
            " at = min(at, excluded.at) WHERE excluded.rank < rank",
            [
                self._event_row(source, home, event, *known)
                for event, known in zip(batch.events, reading.models, strict=True)
            ],
        )
        self._db.executemany(
            "INSERT INTO deeds (session, key, home, rank, at, kind, name) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (home, key) DO UPDATE SET session = excluded.session, rank = excluded.rank"
            " WHERE excluded.rank < rank",
            [
                (
                    self._session(source, home, deed.session_id),
                    deed.key,
                    home,
                    rank(source, deed.session_id),
                    deed.at,
                    deed.kind,
                    deed.name,
                )
                for deed in batch.deeds
            ],
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO unrecorded (session, key, home, rank, at, kind) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    self._session(source, home, trace.session_id),
                    trace.key,
                    home,
                    rank(source, trace.session_id),
                    trace.at,
                    trace.kind,
                )
                for trace in batch.unrecorded
            ],
        )

    def _event_row(
        self, source: UsageSource, home: int, event: UsageEvent, model: str | None, model_source: str
    ) -> tuple[object, ...]:
        tokens = event.tokens
        return (
            self._session(source, home, event.session_id),
            event.key,
            home,
            rank(source, event.session_id),
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
        self._db.execute(
            "INSERT INTO sources (path, device, inode, size, mtime_ns, head, head_size, offset)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (path) DO UPDATE SET device = excluded.device, inode = excluded.inode, size = excluded.size,"
            " mtime_ns = excluded.mtime_ns, head = excluded.head, head_size = excluded.head_size,"
            " offset = excluded.offset",
            (reading.source.path, *reading.state),
        )
        if not reading.batch.skipped:
            return
        (source_id,) = self._db.execute("SELECT id FROM sources WHERE path = ?", (reading.source.path,)).fetchone()
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
        # A file of the whole home names sessions without their container; a copy lies where its origin lay.
        key = (home, source.scope, session_id)
        if key not in self._sessions:
            work_dir = source.work_dir if source.session_id else None
            self._db.execute(
                "INSERT INTO sessions (home, scope, session_id, work_dir) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET work_dir = coalesce(excluded.work_dir, work_dir)",
                (*key, work_dir),
            )
            found = self._db.execute(
                "SELECT id FROM sessions WHERE home = ? AND scope = ? AND session_id = ?", key
            ).fetchone()
            self._sessions[key] = found[0]
        return self._sessions[key]


def rank(source: UsageSource, session_id: str) -> str:
    """Of several sessions that hold one event, the least owns it: originals go before forks, then by id.

    Forks whose provider names no parent can't be told from their original: there the id alone decides.
    """
    return f"{int(source.parent_id is not None)}{session_id}"


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
