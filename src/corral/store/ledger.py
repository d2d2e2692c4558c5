"""ledger.db: every request that a provider recorded, once, kept also when the CLI deletes its logs.

Standard library only: a report that finds nothing new must not pay for more.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from corral.store.ledger_rows import Pricer, Reading, Rows, SourceState
from corral.store.private_file import flush, make_private, name_aside, read_only_uri
from corral.version import __version__

__all__ = ["SCHEMA", "Ledger", "Reading", "SourceState"]

SCHEMA = 3
_BUSY_SECONDS = 30.0
_WRITE_CACHE_KIB = 24 << 10
_LATE_INDEX = "events_by_session"
"""Made when everything is there, where a ledger is built aside: that is quicker than to keep it up."""
_PRICED_BY = "priced_by"
_CHANGE = "change"
_STATE = ", ".join(SourceState._fields)


class Ledger:
    """One file, several processes: readers never wait, writers take turns."""

    def __init__(self, state_dir: str, *, aside: bool = False, unwritable: str | None = None) -> None:
        """Raises OSError or sqlite3.Error when there can be no ledger at all.

        With `aside`, one that does not exist yet is built under another name and appears whole with `publish`: that
        spares a first reading most of its writing, and who is killed in it leaves nothing half done.

        With `unwritable`, the reason why nothing can be written there, it lives in memory and begins with what can be
        read.
        """
        self.path = os.path.join(state_dir, "ledger.db")
        self.notice: str | None = None
        """Something a person should know: it is newer than this corral, or was set aside and rebuilt."""
        self.read_only = False
        self.changed = False
        """Something was stored."""
        self.in_memory = unwritable is not None
        self._aside: str | None = None
        self._found: os.stat_result | None = None
        """The file that was opened, to tell whether another stands in its place."""
        if self.in_memory:
            self.db = _open_in_memory(self.path)
            self.notice = f"{state_dir} can't be written ({unwritable}): nothing is kept, logs are read every time"
            return
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        if not os.path.lexists(self.path):
            if aside:
                self._aside = name_aside(self.path)
                _sweep(state_dir)
        elif not (os.access(self.path, os.W_OK) and os.access(state_dir, os.W_OK)):
            # SQLite would say so only with its first write, or fail to read what it can't share with others.
            raise OSError(errno.EROFS, "it is read-only", self.path)
        try:
            self.db = self._open()
        except sqlite3.OperationalError:
            self._drop_aside()
            raise
        except sqlite3.DatabaseError as error:
            self.db = self._rebuild(str(error))

    def _open(self) -> sqlite3.Connection:
        path = self._aside or self.path
        make_private(path)
        self._found = os.stat(path)
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        if self._aside:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
        else:
            db.execute("PRAGMA synchronous = FULL")
        found = _find_schema(db)
        if found is None:
            if not self._aside:
                db.execute("PRAGMA journal_mode = WAL")
            _create(db)
            if self._aside:
                db.execute(f"DROP INDEX {_LATE_INDEX}")
        elif found < SCHEMA:
            db.close()
            raise sqlite3.DatabaseError(f"made by an early corral, schema {found}")
        elif found > SCHEMA:
            db.close()
            self.read_only = True
            self.notice = f"{self.path} was made by a newer corral (schema {found}): it is read, and not written"
            db = sqlite3.connect(read_only_uri(self.path), uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        return db

    def publish(self) -> None:
        """Let a ledger that was built aside appear. Whoever was first with another one wins: that is opened then."""
        if not self._aside:
            return
        from corral.store.ledger_sums import rebuild_sums

        self.db.execute("BEGIN")
        self.db.execute(next(one for one in read_schema().split(";\n") if f"INDEX {_LATE_INDEX} " in one))
        rebuild_sums(self.db)
        self._put_memo(_CHANGE, os.urandom(8))
        self.db.execute("COMMIT")
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.close()
        flush(self._aside)
        try:
            os.link(self._aside, self.path)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            os.rename(self._aside, self.path)  # a filesystem without links
        with suppress(FileNotFoundError):
            os.unlink(self._aside)
        flush(os.path.dirname(self.path))
        self._aside = None
        self.db = self._open()

    def _rebuild(self, why: str) -> sqlite3.Connection:
        """Set a broken file aside, save what can be read of it, and go on with a new one; one process at a time."""
        from corral.store.ledger_backup import list_backups
        from corral.store.ledger_salvage import keep_broken, put_in_place, salvage
        from corral.store.locks import take_lock

        lock = take_lock(os.path.dirname(self.path), "ledger.lock", wait_seconds=_BUSY_SECONDS)
        if lock is None:
            raise sqlite3.OperationalError("another corral has been rebuilding it for long")
        try:
            if self._found is None or not os.path.samestat(self._found, os.stat(self.path)):
                self.notice = f"the ledger could not be used ({why}): another corral has just made it anew"
                return self._open()
            broken, made = keep_broken(self.path), name_aside(self.path)
            make_private(made)
            db = sqlite3.connect(made, isolation_level=None)
            _create(db)
            saved = sum(salvage(path, db) for path in (broken, *list_backups(self.path)))
            put_in_place(db, made, self.path)
        finally:
            os.close(lock)
        self.notice = (
            f"the ledger could not be used ({why}): it is now {broken}; {saved} rows were saved, logs are read anew"
        )
        return self._open()

    def rebuild(self, why: str) -> None:
        """The same for damage that showed only later."""
        self.db.close()
        self.db = self._rebuild(why)

    def source_states(self) -> dict[str, SourceState]:
        """Every file that was ever read."""
        rows = self.db.execute(f"SELECT path, {_STATE} FROM sources")
        return {row[0]: SourceState(*row[1:]) for row in rows}

    def find_source(self, path: str) -> SourceState | None:
        """One file or directory as it was when it was last read."""
        row = self.db.execute(f"SELECT {_STATE} FROM sources WHERE path = ?", (path,)).fetchone()
        return SourceState(*row) if row else None

    def home_paths(self, provider: str) -> list[str]:
        """The homes of a provider that were ever read or reported."""
        return [row[0] for row in self.db.execute("SELECT path FROM homes WHERE provider = ? ORDER BY 1", (provider,))]

    def note_homes(self, provider: str, paths: Iterable[str], source: str, state: SourceState) -> None:
        """Keep homes that are known from somewhere else, with how that was when it was read."""
        from corral.store.ledger_writer import store_state

        self.db.execute("BEGIN IMMEDIATE")
        rows = [(provider, path) for path in sorted(paths)]
        self.db.executemany("INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)", rows)
        store_state(self.db, source, state)
        self.db.execute("COMMIT")

    def store(self, readings: Iterable[Reading], pricer: Pricer | None = None) -> None:
        """All of them or none: a reading and how far it came are one."""
        from corral.store.row_making import make_rows

        self.store_rows((make_rows(reading, pricer) for reading in readings), pricer)

    def store_rows(
        self, found: Iterable[Rows], pricer: Pricer | None, memos: Mapping[str, bytes] | None = None
    ) -> None:
        """The same with rows that were made elsewhere, by the same pricer; and what is to be remembered with them."""
        if self.read_only:
            return
        from corral.store.ledger_sums import price_all, price_stale, refresh_sums, take_notes
        from corral.store.ledger_writer import Writer
        from corral.store.price_origins import note_all_origins, note_origins

        self.db.execute(f"PRAGMA cache_size = -{_WRITE_CACHE_KIB}")
        take_notes(self.db)
        self.db.execute("BEGIN IMMEDIATE")
        try:
            repriced = self._begin_prices(pricer)
            writer = Writer(self.db)
            stored = list(found)
            writer.write(stored)
            price_stale(self.db, pricer)
            if self._aside is None:
                refresh_sums(self.db, writer.touched)
            if pricer is not None and repriced:
                price_all(self.db, pricer)
                note_all_origins(self.db, pricer)
            elif pricer is not None:
                note_origins(self.db, pricer, stored)
            self._put_memo(_CHANGE, os.urandom(8))
            for name, value in (memos or {}).items():
                self._put_memo(name, value)
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise
        self.changed = True

    def drop_skips(self, paths: Iterable[str], reason: str) -> None:
        """Forget what was skipped in some files for a reason that begins so."""
        self.db.execute("BEGIN IMMEDIATE")
        drop = "DELETE FROM skips WHERE source = (SELECT id FROM sources WHERE path = ?) AND reason LIKE ?"
        self.db.executemany(drop, [(path, f"{reason}%") for path in paths])
        self._put_memo(_CHANGE, os.urandom(8))
        self.db.execute("COMMIT")

    def _begin_prices(self, pricer: Pricer | None) -> bool:
        """Note whose prices hold from now on. True when there are events with other ones."""
        if pricer is None or self.is_priced_by(pricer.stamp):
            return False
        self._put_memo(_PRICED_BY, pricer.stamp.encode())
        return self.db.execute("SELECT 1 FROM events LIMIT 1").fetchone() is not None

    def is_priced_by(self, stamp: str) -> bool:
        """Whether every event has the price that a pricer of this stamp gives it."""
        return self.find_memo(_PRICED_BY) == stamp.encode()

    def find_state(self) -> bytes | None:
        """Equal as long as nothing was stored; None where nothing ever was."""
        return self.find_memo(_CHANGE)

    def find_memo(self, name: str) -> bytes | None:
        found = self.db.execute("SELECT value FROM memo WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    def keep_memos(self, memos: dict[str, bytes]) -> None:
        """Remember what spares work the next time. Losing it costs time and nothing else."""
        if self.read_only:
            return
        self.db.execute("BEGIN IMMEDIATE")
        for name, value in memos.items():
            self._put_memo(name, value)
        self.db.execute("COMMIT")

    def _put_memo(self, name: str, value: bytes) -> None:
        self.db.execute("INSERT OR REPLACE INTO memo VALUES (?, ?)", (name, value))

    def close(self) -> None:
        self.db.close()
        self._drop_aside()

    def _drop_aside(self) -> None:
        if self._aside:
            with suppress(FileNotFoundError):
                os.unlink(self._aside)


def _find_schema(db: sqlite3.Connection) -> int | None:
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
        return None
    row = db.execute("SELECT schema FROM about").fetchone()
    return row[0] if row else None


def _open_in_memory(path: str) -> sqlite3.Connection:
    """An empty ledger, or a copy of the one at `path` if it can be read and is of this schema."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    if not os.path.isfile(path):  # who opens a pipe waits for its other end
        _create(db)
        return db
    with suppress(sqlite3.Error):
        old = sqlite3.connect(f"{read_only_uri(path)}&immutable=1", uri=True)
        if _find_schema(old) == SCHEMA:
            old.backup(db)
        old.close()
    if _find_schema(db) is None:
        _create(db)
    return db


def _create(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    if _find_schema(db) is None:
        for statement in read_schema().split(";\n"):
            db.execute(statement)
        db.execute("INSERT INTO about VALUES (?, ?)", (SCHEMA, __version__))
    db.execute("COMMIT")


def read_schema() -> str:
    """The statements that make an empty ledger."""
    with open(os.path.join(os.path.dirname(__file__), "ledger.sql"), encoding="utf-8") as file:
        return file.read()


def _sweep(state_dir: str) -> None:
    """Remove what first readings that were killed have left. One that still runs keeps its open file's name until it
    is a day old."""
    with os.scandir(state_dir) as entries:
        for entry in entries:
            if entry.name.startswith("ledger.db.new-"):
                with suppress(OSError):
                    if time.time() - entry.stat().st_mtime > 86_400:
                        os.unlink(entry.path)
