"""ledger.db: every request that a provider recorded, once, kept also when the CLI deletes its logs."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import NamedTuple

from corral.state.private_file import flush, make_private, name_aside, read_only_uri
from corral.usage.checks import (
    Change,
    Checks,
    Damaged,
    add_functions,
    is_damage,
    is_right,
    moment,
    seal_all,
    seal_table,
    select_rows,
)
from corral.usage.rows import Pricer, Reading, Row, Rows, SourceState, make_rows
from corral.usage.schema import (
    DEFERRED,
    SCHEMA,
    create,
    find_schema,
    migrate,
    put_memo,
    read_statements,
    set_shape,
    sum_memo,
    transaction,
)
from corral.usage.sums import price_all, price_stale, rebuild_sums, refresh_sums, take_notes

COPIES = 3
_DAY_S = 86_400
_BUSY_SECONDS = 30.0
_WRITE_CACHE_KIB = 24 << 10
_LATE_INDEX = "events_by_session"
"""Made when everything is there, where a ledger is built aside: that is quicker than keeping it up."""
FINGERPRINT = "fingerprint"
"""What decides where logs are, as it was when all of them were listed; without it everything is listed again."""
CURRENCY, CONFIG_PROBLEM, UNKNOWN_PRICES = "currency", "config problem", "unknown prices"
"""What reports need of the configuration."""
_PRICED_BY, _CHANGE = "priced_by", "change"
_UNSETTLED = {FINGERPRINT: b""}
_STATE_COLUMNS = slice(2, 2 + len(SourceState._fields))


class Known(NamedTuple):
    """What the ledger that this one replaces knew, and no log may say any more. It decides how logs are read."""

    homes: Mapping[str, Collection[str]]
    """By provider."""
    described: Mapping[str, str]
    """Whose file each one was that was read, as JSON, by its path."""
    read: Mapping[str, Collection[str]]
    """Sessions whose own logs were read, by provider."""


class Deferred(NamedTuple):
    """Logs that wait to be read."""

    files: int
    bytes: int
    newest_ns: int
    """When the youngest of them was last modified."""


class Ledger:
    """One file, several processes: readers never wait, writers take turns."""

    def __init__(
        self, state_dir: str, *, aside: bool = False, again: bool = False, unwritable: str | None = None
    ) -> None:
        """Raises OSError or sqlite3.Error when there can be no ledger at all, and Damaged when the one that is there
        has to be rebuilt from the logs.

        With `aside`, one that does not exist yet is built under another name and appears whole with `publish`: that
        saves a first reading most of its writing, and a killed one leaves nothing half done. With `again`, it is built
        so although one exists, and takes its place.

        With `unwritable`, the reason why nothing can be written there, it is in memory and begins with what can be
        read (with `again`: with nothing).
        """
        self.path = os.path.join(state_dir, "ledger.db")
        self.notice: str | None = None
        """Something a person should know: it is newer than this corral, or was rebuilt."""
        self.read_only = False
        self.changed = False
        """Something was stored."""
        self._outrun = False
        """Another process has stored something since this one began its scan."""
        self._seen: bytes | None = None
        """The state that this one last read or made."""
        self.unwritable = unwritable
        self.in_memory = unwritable is not None
        self.known = Known({}, {}, {})
        """What the ledger knew which this one replaces."""
        self.just_built = False
        """It was read from the logs by this process."""
        self._aside: str | None = None
        self.is_new = again
        """Nobody else sees it yet: it is sealed as a whole, by `publish`."""
        self._again = again
        self.found: os.stat_result | None = None
        """The file that was opened, to tell whether another is in its place now."""
        if self.in_memory:
            self.db = self._open_in_memory(again)
            self.notice = f"{state_dir} can't be written ({unwritable}): nothing is kept, logs are read every time"
            self.checks = Checks(self.db, enabled=not self.is_new)
            return
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        if again or not os.path.lexists(self.path):
            if aside or again:
                self._aside = name_aside(self.path)
                self.is_new = True
                _sweep(state_dir)
        elif not (os.access(self.path, os.W_OK) and os.access(state_dir, os.W_OK)):
            # SQLite would say so only with its first write, or fail to read what it can't share with others.
            raise OSError(errno.EROFS, "it is read-only", self.path)
        try:
            self.db = self._open()
        except BaseException:
            self._drop_aside()
            raise
        self.checks = Checks(self.db, enabled=not (self.read_only or self.is_new))

    def _open(self) -> sqlite3.Connection:
        path = self._aside or self.path
        is_new = not os.path.lexists(path)
        make_private(path)
        self.found = os.stat(path)
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            return self._prepare(db, is_new)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            db.close()
            if is_damage(error):
                damaged = Damaged(str(error))
                damaged.seen = self.found
                raise damaged from error
            raise
        except BaseException:
            db.close()
            raise

    def _prepare(self, db: sqlite3.Connection, is_new: bool) -> sqlite3.Connection:
        add_functions(db)
        if self._aside:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
        else:
            db.execute("PRAGMA synchronous = FULL")
        if is_new:
            if not self._aside:
                db.execute("PRAGMA journal_mode = WAL")
            create(db)
            if self._aside:
                db.execute(f"DROP INDEX {_LATE_INDEX}")
            return db
        found = find_schema(db)
        if found < SCHEMA:
            migrate(db)
        if found > SCHEMA:
            db.close()
            self.read_only = True
            self.notice = f"{self.path} was made by a newer corral (schema {found}): it is read, and not written"
            db = sqlite3.connect(read_only_uri(self.path), uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        return db

    def _open_in_memory(self, empty: bool) -> sqlite3.Connection:
        """An empty ledger, or a copy of the one that is there, if it can be read and is no newer than this corral."""
        db = sqlite3.connect(":memory:", isolation_level=None)
        add_functions(db)
        if not empty and os.path.isfile(self.path):  # opening a pipe waits for its other end
            with suppress(sqlite3.Error):
                old = sqlite3.connect(f"{read_only_uri(self.path)}&immutable=1", uri=True)
                if find_schema(old) <= SCHEMA:
                    old.backup(db)
                old.close()
                if find_schema(db) < SCHEMA:
                    migrate(db)
        if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            create(db)
            self.is_new = True
        return db

    def publish(self) -> None:
        """Let a ledger that was built aside appear. Whoever was first with another one wins: that is opened then,
        unless this one is to take its place."""
        if not self.is_new:
            return
        self.seal()
        if self._aside is None:
            return
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.close()
        flush(self._aside)
        if self._again:
            for suffix in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(self.path + suffix)
            os.replace(self._aside, self.path)
        else:
            self._link(self._aside)
        flush(os.path.dirname(self.path))
        self._aside = None
        self.db = self._open()
        self.checks = Checks(self.db, enabled=not self.read_only)

    def seal(self) -> None:
        """All that is in a ledger which nobody else sees yet is right."""
        self.db.execute("BEGIN")
        self.db.execute(f"DROP INDEX IF EXISTS {_LATE_INDEX}")
        self.db.execute(next(one for one in read_statements() if f"INDEX {_LATE_INDEX} " in one))
        rebuild_sums(self.db)
        self._note_change()
        seal_all(self.db)
        set_shape(self.db)
        self.db.execute("COMMIT")
        self.is_new, self.just_built, self.checks = False, True, Checks(self.db)

    def _link(self, made: str) -> None:
        try:
            os.link(made, self.path)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            os.rename(made, self.path)  # a filesystem without links
        with suppress(FileNotFoundError):
            os.unlink(made)

    def reading(self) -> AbstractContextManager[None]:
        """Whatever is checked and read within is of one moment."""
        return moment(self.db)

    def read_sources(self) -> dict[str, tuple[str, SourceState]]:
        """Every file that was ever read: whose it is, as JSON (empty: not known), and how it was. Raises Damaged."""
        return {row[1]: (row[-2] or "", SourceState(*row[_STATE_COLUMNS])) for row in self._read_sources()}

    def _read_sources(self) -> Iterable[Row]:
        self.checks.tables("sources")
        return self.db.execute(select_rows("sources"))

    def descriptions(self) -> dict[str, str]:
        """Whose each file is that was ever read, as JSON, by its path; what a ledger before this one knew as well.
        Raises Damaged."""
        return dict(self.known.described) | {row[1]: row[-2] for row in self._read_sources() if row[-2] is not None}

    def list_read(self, provider: str, session_ids: Collection[str]) -> set[str]:
        """Which of these sessions' own logs were ever read; in small letters, as ids are compared here."""
        query = (
            "SELECT DISTINCT session_id FROM sessions NOT INDEXED JOIN homes ON homes.id = home"
            " WHERE provider = ? AND has_log"
            f" AND session_id COLLATE NOCASE IN ({', '.join('?' * len(session_ids))})"
        )
        here = (session_id for (session_id,) in self.db.execute(query, (provider, *session_ids)))
        return {one.lower() for one in (*here, *self.known.read.get(provider, ()))} & {*map(str.lower, session_ids)}

    def find_source(self, path: str) -> tuple[str | None, SourceState] | None:
        """One file or directory as it was when it was last read, and whose it is, as JSON."""
        row = self.db.execute(f"{select_rows('sources')} WHERE path = ?", (path,)).fetchone()
        # An index may lead to another one.
        return (row[-2], SourceState(*row[_STATE_COLUMNS])) if row and is_right(row) and row[1] == path else None

    def home_paths(self, provider: str) -> list[str]:
        """The homes of a provider that were ever read or reported."""
        self.checks.tables("homes")
        rows = self.db.execute("SELECT path FROM homes WHERE provider = ?", (provider,))
        return sorted({*(path for (path,) in rows), *self.known.homes.get(provider, ())})

    def note_homes(self, provider: str, paths: Iterable[str], source: str, state: SourceState) -> None:
        """Keep homes that are known from somewhere else, with how that was when it was read."""
        from corral.usage.writer import store_state

        with self.writing("homes", "sources"):
            rows = [(provider, path) for path in sorted(paths)]
            self.db.executemany("INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)", rows)
            store_state(self.db, source, state)

    @contextmanager
    def writing(self, *tables: str) -> Generator[None]:
        """A transaction that changes these tables: checked before, sealed after."""
        with transaction(self.db):
            self.checks.tables(*tables)
            yield
            for name in tables if not self.is_new else ():
                seal_table(self.db, name)

    def store(self, readings: Iterable[Reading], pricer: Pricer | None = None) -> None:
        """All of them or none: a reading and how far it came are one."""
        self.store_rows((make_rows(reading, pricer) for reading in readings), pricer)

    def store_rows(
        self, found: Iterable[Rows], pricer: Pricer | None, memos: Mapping[str, bytes] | None = None
    ) -> None:
        """The same with rows that were made elsewhere, by the same pricer; and what is to be remembered with them.

        Without `memos` there is more to come: until it has, everything is to be listed again.
        """
        if self.read_only:
            return
        from corral.usage.price_table import note_all_origins, note_origins
        from corral.usage.writer import Writer

        self.db.execute(f"PRAGMA cache_size = -{_WRITE_CACHE_KIB}")
        take_notes(self.db)
        with transaction(self.db):
            repriced = self._begin_prices(pricer)
            writer = Writer(self.db)
            given = list(found)
            stored = [rows for rows in given if not self._is_outrun(rows)]
            change = None if self.is_new else Change(self.db, stored)
            before = self.count_deferred().files
            waiting = before - self._count_waiting(stored) if before else None
            if repriced and not self.is_new:
                self.checks.tables("events", "actions")  # of which all sums are made again
            writer.write(stored)
            price_stale(self.db, pricer)
            touched = writer.touched if self.is_new else refresh_sums(self.db, writer.touched)
            if pricer is not None and repriced:
                price_all(self.db, pricer)
                note_all_origins(self.db, pricer)
            elif pricer is not None:
                note_origins(self.db, pricer, stored)
            if change is not None:
                change.finish(touched)
            if repriced and not self.is_new:
                seal_table(self.db, "events")
            if waiting is not None and self._put_deferred().files != waiting:
                raise Damaged("a log that waited to be read is not there")
            self._note_change()
            for name, value in (memos if memos is not None and len(stored) == len(given) else _UNSETTLED).items():
                put_memo(self.db, name, value)
        self.changed = True

    def _count_waiting(self, stored: Iterable[Rows]) -> int:
        query = "SELECT count(*) FROM sources WHERE path = ? AND deferred"
        return sum(self.db.execute(query, (path,)).fetchone()[0] for path in {rows.path for rows in stored})

    def _is_outrun(self, rows: Rows) -> bool:
        """Whether what is to be stored was read by what was known of the file before another process stored it by what
        is known now. Keys and ranks depend on that: both would be counted."""
        if rows.basis is None or self.is_new:
            return False
        found = self.db.execute("SELECT described FROM sources WHERE path = ?", (rows.path,)).fetchone()
        now = (found[0] if found else None) or ""
        return now not in (rows.basis, rows.described or "")

    def count_deferred(self) -> Deferred:
        """The logs that wait to be read. Raises Damaged."""
        kept = self.find_memo(DEFERRED)
        if kept is not None:
            return Deferred(*map(int, kept.split()))
        self.checks.tables("sources")
        return self._sum_deferred()

    def needs_deferred(self, cutoff: int | None) -> bool:
        """Whether a log waits that was modified since the cutoff (ns), or ever."""
        waiting = self.count_deferred()
        return bool(waiting.files) and (cutoff is None or waiting.newest_ns >= cutoff)

    def _sum_deferred(self) -> Deferred:
        query = (
            "SELECT count(*), coalesce(sum(size), 0), coalesce(max(mtime_ns), 0) FROM sources NOT INDEXED"
            " WHERE deferred"
        )
        return Deferred(*self.db.execute(query).fetchone())

    def _put_deferred(self) -> Deferred:
        found = self._sum_deferred()
        put_memo(self.db, DEFERRED, " ".join(map(str, found)).encode())
        return found

    @contextmanager
    def deferring(self, *tables: str) -> Generator[None]:
        """A transaction that changes which logs wait, and these tables."""
        with self.writing("sources", *tables):
            yield
            self._put_deferred()

    def drop_skips(self, paths: Iterable[str], reason: str) -> None:
        """Forget what was skipped in some files for a reason that begins so."""
        drop = "DELETE FROM skips WHERE source = (SELECT id FROM sources WHERE path = ?) AND reason LIKE ?"
        with self.writing("skips"):
            self.db.executemany(drop, [(path, f"{reason}%") for path in paths])
            self._note_change()

    def acknowledge_losses(self) -> None:
        """They are known: no report names them any more."""
        with self.writing("losses"):
            self.db.execute("UPDATE losses SET acknowledged = 1")

    def _begin_prices(self, pricer: Pricer | None) -> bool:
        """Note whose prices hold from now on. True when there are events with other ones."""
        if pricer is None or self.is_priced_by(pricer.stamp):
            return False
        put_memo(self.db, _PRICED_BY, pricer.stamp.encode())
        return self.db.execute("SELECT 1 FROM events LIMIT 1").fetchone() is not None

    def is_priced_by(self, stamp: str) -> bool:
        """Whether every event has the price that a pricer of this stamp gives it."""
        return self.find_memo(_PRICED_BY) == stamp.encode()

    def find_state(self) -> bytes | None:
        """Equal as long as nothing was stored; None where nothing ever was."""
        return self.find_memo(_CHANGE)

    def begin_scan(self) -> None:
        """What is known of files is about to be compared with how they are."""
        self._seen, self._outrun = self.find_state(), False

    def _note_change(self) -> None:
        self._outrun = self._outrun or self.find_state() != self._seen
        self._seen = os.urandom(8)
        put_memo(self.db, _CHANGE, self._seen)

    def find_memo(self, name: str) -> bytes | None:
        """What was remembered; None also where it is not as it was written: it is made again then."""
        row = self.db.execute(f"{select_rows('memo')} WHERE name = ?", (name,)).fetchone()
        return row[1] if row is not None and row[2] == sum_memo(name, row[1]) else None

    def keep_snapshot(self, memos: dict[str, bytes]) -> None:
        """Remember how all looked that was compared. If others have stored something since `begin_scan`, by what
        they had seen before, it has to be compared again."""
        if self.read_only:
            return
        with transaction(self.db):
            is_settled = not self._outrun and self.find_state() == self._seen
            for name, value in (memos if is_settled else _UNSETTLED).items():
                put_memo(self.db, name, value)

    def finish(self) -> None:
        """Make a copy, if something was stored. Raises Damaged: damage must not take the place of a sound copy."""
        if self.changed and self._is_copy_due(time.time()):
            if not self.just_built:
                self.checks.all()
            # Without its copy the ledger is as good as before; the next change tries again.
            with suppress(OSError, sqlite3.Error):
                self.back_up()

    def back_up(self, now: float | None = None) -> bool:
        """Copy the ledger if the newest copy is a day old; whether it did. `ledger.db.1` is the newest of three.

        Raises OSError or sqlite3.Error: the ledger itself is fine then.
        """
        if not self._is_copy_due(time.time() if now is None else now):
            return False
        made = name_aside(self.path, "backup")
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            with closing(sqlite3.connect(made)) as copy:
                self.db.backup(copy)
            for number in range(COPIES, 1, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{self.path}.{number - 1}", f"{self.path}.{number}")
            os.replace(made, f"{self.path}.1")
        finally:
            with suppress(FileNotFoundError):
                os.unlink(made)
        return True

    def _is_copy_due(self, now: float) -> bool:
        if self.in_memory:
            return False
        with suppress(FileNotFoundError):
            return now - os.stat(f"{self.path}.1").st_mtime >= _DAY_S
        return True

    def close(self) -> None:
        self.db.close()
        self._drop_aside()

    def _drop_aside(self) -> None:
        if self._aside:
            with suppress(FileNotFoundError):
                os.unlink(self._aside)


def _sweep(state_dir: str) -> None:
    """Remove what first readings that were killed have left. One that still runs keeps its open file's name until it
    is a day old."""
    with os.scandir(state_dir) as entries:
        for entry in entries:
            if entry.name.startswith("ledger.db.new-"):
                with suppress(OSError):
                    if time.time() - entry.stat().st_mtime > _DAY_S:
                        os.unlink(entry.path)
