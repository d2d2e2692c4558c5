"""Making the ledger again: from the logs that exist, and from what only an older one knows."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from corral.state.locks import take_lock
from corral.usage.ledger import Known, Ledger, is_newer
from corral.usage.ledger_backup import list_backups
from corral.usage.ledger_writer import ADD_KNOWN, Writer
from corral.usage.read import OnProgress
from corral.usage.rows import STAND_IN, Row, SourceState
from corral.usage.salvage import COUNTED, OldLedger, OldSession, keep_damaged, read_old

_WAIT_SECONDS = 60.0


def make_again(
    state_dir: str,
    why: str,
    seen: os.stat_result | None,
    *,
    unwritable: str | None = None,
    on_progress: OnProgress | None = None,
    asked_for: bool = False,
) -> Ledger:
    """The ledger, made again in place of the file `seen`; one process at a time. Raises OSError or sqlite3.Error.

    The old file stays, under another name. What is in no log any more comes from it and, if it is damaged, from its
    copies: row by row, and only with a right checksum. What is lost is noted in the new one. `asked_for`: it is in
    order, as far as anybody knows.
    """
    path = os.path.join(state_dir, "ledger.db")
    if unwritable is not None:
        return _make(state_dir, why, path, unwritable=unwritable, on_progress=on_progress)
    lock = take_lock(state_dir, "ledger.lock", wait_seconds=_WAIT_SECONDS)
    if lock is None:
        raise sqlite3.OperationalError("another corral has been making it again for long")
    try:
        if seen is None or not os.path.samestat(seen, os.stat(path)):
            ledger = Ledger(state_dir, aside=True)
            ledger.notice = f"the ledger could not be used ({why}): another corral has just made it again"
            return ledger
        if is_newer(path):  # what a newer corral made is its own
            raise sqlite3.DatabaseError(why)
        kept = keep_damaged(path)
        return _make(state_dir, why, kept, on_progress=on_progress, asked_for=asked_for)
    finally:
        os.close(lock)


def _make(
    state_dir: str,
    why: str,
    kept: str,
    *,
    unwritable: str | None = None,
    on_progress: OnProgress | None,
    asked_for: bool = False,
) -> Ledger:
    from corral.usage.scan import scan_homes

    old = _read(kept)
    copies = [] if old is not None and old.is_complete() else [*filter(None, map(_read, _list_copies(state_dir)))]
    known = [one for one in (old, *copies) if one is not None]
    ledger = Ledger(state_dir, again=True, unwritable=unwritable)
    try:
        ledger.known = _list_known(known)
        scan_homes(ledger, on_progress)
        saved, losses = _add(ledger, old, known, copies, kept)
        ledger.publish()
    except BaseException:
        ledger.close()
        raise
    place = f"the old one is {kept}"
    if asked_for:
        ledger.notice = f"the ledger was rebuilt from the logs; {place}"
    else:
        gone = "" if not losses else "; not all of it could be saved"
        ledger.notice = (
            f"the ledger could not be used ({why}): it was rebuilt from the logs, with {saved} rows that only it and"
            f" its copies knew{gone}; {place}"
        )
    return ledger


def _add(
    ledger: Ledger, old: OldLedger | None, known: list[OldLedger], copies: list[OldLedger], kept: str
) -> tuple[int, list[Loss]]:
    """What is in no log; how many rows that were, and what is lost."""
    from corral.providers.settings import read_settings
    from corral.usage.former_keys import Families, settle_keys, settle_ranks
    from corral.usage.ledger_sums import price_all
    from corral.usage.price_table import TablePricer, note_all_origins

    db = ledger.db
    whole = max((copy.modified_at for copy in copies if copy.is_complete()), default=None)
    before = _count(db)
    changes = db.total_changes
    db.execute("BEGIN IMMEDIATE")
    families = Families(db, known)
    for one in known:
        settle_ranks(one, families)
        settle_keys(db, one, families)
        add_known(db, one)
    if db.total_changes > changes:
        pricer = TablePricer(read_settings())
        price_all(db, pricer)
        note_all_origins(db, pricer)
    if old is not None:
        losses = list(find_losses(db, old, whole))
    elif os.path.exists(kept):
        losses = [Loss(ANYTHING, None, whole, os.stat(kept).st_mtime)]
    else:
        losses = []
    add_loss = "INSERT INTO losses (noticed_at, what, rows, since, until) VALUES (?, ?, ?, ?, ?)"
    db.executemany(add_loss, [(time.time(), *loss) for loss in losses])
    db.execute("COMMIT")
    return _count(db) - before, losses


def _count(db: sqlite3.Connection) -> int:
    counts = "+".join(f"(SELECT count(*) FROM {table})" for table in ("events", "actions", "unrecorded"))
    return db.execute(f"SELECT {counts}").fetchone()[0]


def _read(path: str) -> OldLedger | None:
    try:
        return read_old(path)
    except (OSError, sqlite3.Error, UnicodeError):
        return None


def _list_copies(state_dir: str) -> list[str]:
    return list_backups(os.path.join(state_dir, "ledger.db"))


def _list_known(known: list[OldLedger]) -> Known:
    """Homes also where only the row of a log names them. What the ledger itself was told is newer than its copies."""
    homes: dict[str, set[str]] = {}
    described: dict[str, str] = {}
    read: dict[str, set[str]] = {}
    for one in known:
        for provider, path in one.homes | one.described_homes:
            homes.setdefault(provider, set()).add(path)
        for path, source in one.sources.items():
            if isinstance(source.row[-1], str):
                described.setdefault(path, source.row[-1])
        for session in one.sessions.values():
            if session.has_log:
                read.setdefault(session.provider, set()).add(session.session_id)
    return Known(homes, described, read)


_WIDTHS = {"events": 15, "actions": 6, "unrecorded": 5}
"""Columns that are taken over: prices and checksums are made again."""


class Loss(NamedTuple):
    """What was counted once and could not be saved."""

    what: str
    rows: int | None
    """At least so many; None: can't be told, perhaps none."""
    since: float | None
    until: float | None


WHAT = {"events": "requests", "actions": "turns and calls of tools", "unrecorded": "calls without tokens"}
ANYTHING = "requests, turns and calls of tools"
_SKIPS = "notes on skipped lines"
_KEEP_PROJECT = (
    "UPDATE sessions SET work_dir = iif(has_log, iif({}, coalesce(work_dir, ?1), work_dir),"
    " min(coalesce(work_dir, ?1), coalesce(?1, work_dir))) WHERE id = ?2"
)
"""What its own log told once holds where that tells it no more; what copies told, by the rule for them in Writer."""
_SLACK_S = 2.0
"""Some disks keep times of files no finer."""


def add_known(db: sqlite3.Connection, old: OldLedger) -> None:
    """Within the caller's transaction; prices and sums are to be made after. Where a log tells the same, it holds."""
    place = _Places(db, old)
    for table, statement in ADD_KNOWN.items():
        db.executemany(statement, place.bind(old.counted[table].values(), _WIDTHS[table]))
    add_home = "INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)"
    db.executemany(add_home, sorted(old.homes))
    _add_sources(db, old)
    known = {row[0] for row in db.execute("SELECT noticed_at FROM losses")}
    add_loss = "INSERT INTO losses (noticed_at, what, rows, since, until, acknowledged) VALUES (?, ?, ?, ?, ?, ?)"
    db.executemany(add_loss, [row[1:-1] for row in old.losses if row[1] not in known])


class _Places:
    """Under which numbers the sessions of an older ledger are here."""

    def __init__(self, db: sqlite3.Connection, old: OldLedger) -> None:
        self._db = db
        self._writer = Writer(db)
        self._old = old
        self._ids: dict[int, int] = {}
        self._logged: dict[tuple[str, int], dict[str, int]] = {}
        # Sessions with logs of their own first: what stood in for them goes.
        for number, session in sorted(old.sessions.items(), key=lambda item: not item[1].has_log):
            self._ids[number] = self._find(session)
        self._read = self._list_read()

    def bind(self, rows: Iterable[Row], width: int) -> Iterator[Row]:
        for key, number, rank, *rest in rows:
            session = self._ids.get(number)
            if session is not None and not (rank >= STAND_IN and session in self._read):
                yield (session, key, rank, *rest[: width - 3])

    def _find(self, session: OldSession) -> int:
        home = self._writer.find_home(session.provider, session.home)
        if not session.scope and not session.has_log:
            if (session.provider, home) not in self._logged:
                self._logged[session.provider, home] = self._writer.list_read(session.provider, home)
            if found := self._logged[session.provider, home].get(session.session_id):
                return found
        key = (home, session.scope, session.session_id)
        query = "SELECT id, has_log FROM sessions WHERE home = ? AND scope = ? AND session_id = ?"
        found = self._db.execute(query, key).fetchone()
        if found is not None and (found[1] or not session.has_log):
            self._db.execute(_KEEP_PROJECT.format(session.has_log), (session.work_dir, found[0]))
            return found[0]
        self._db.execute(
            "INSERT INTO sessions (home, scope, session_id, work_dir, has_log) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET has_log = 1, work_dir = coalesce(excluded.work_dir, work_dir)",
            (*key, session.work_dir, session.has_log),
        )
        number, _ = self._db.execute(query, key).fetchone()
        bare = self._db.execute(query, (home, "", session.session_id)).fetchone()
        if session.scope and session.has_log and bare is not None:
            self._writer.adopt(bare[0], number)
        return number

    def _list_read(self) -> set[int]:
        return {number for (number,) in self._db.execute("SELECT id FROM sessions WHERE has_log")}


def _add_sources(db: sqlite3.Connection, old: OldLedger) -> None:
    """Of logs that are gone: how far they were read, and what was skipped in them."""
    columns = ", ".join(("path", *SourceState._fields, "described"))
    for path, source in old.sources.items():
        if os.path.lexists(path) or db.execute("SELECT 1 FROM sources WHERE path = ?", (path,)).fetchone():
            continue
        marks = ", ".join("?" * len(source.row))
        number = db.execute(f"INSERT INTO sources ({columns}) VALUES ({marks})", source.row).lastrowid
        db.executemany(
            "INSERT INTO skips (source, offset, reason) VALUES (?, ?, ?)", [(number, *skip) for skip in source.skips]
        )


def find_losses(db: sqlite3.Connection, old: OldLedger, saved_until: float | None) -> Iterator[Loss]:
    """What an older ledger had and this one has not. `saved_until`: a copy of then was complete."""
    where = "SELECT provider, session_id FROM sessions JOIN homes ON homes.id = home WHERE has_log"
    read = set(db.execute(where))
    stood_in = {number for number, one in old.sessions.items() if (one.provider, one.session_id) in read}
    known = _KnownTimes(old)
    for table in COUNTED:
        right = old.counted[table]
        whose = f"FROM {table} JOIN sessions ON sessions.id = session JOIN homes ON homes.id = home"
        rows = db.execute(f"SELECT key, at, provider, session_id {whose}").fetchall()
        here: dict[int, float] = {key: at for key, at, *_ in rows}
        unplaced = [
            row[3] for key, row in right.items() if key not in here and not (row[2] >= STAND_IN and row[1] in stood_in)
        ]
        again = sum(1 for key, at, *session in rows if key not in right and known.may_have(at, *session))
        missing = old.count_missing(table)
        if missing is None:
            yield Loss(WHAT[table], None, saved_until, old.modified_at)
        elif (lost := max(0, missing - again)) or unplaced:
            times = unplaced if not lost else [*unplaced, *_find_times(db, old, table, here)]
            since, until = (min(times), max(times)) if times else (saved_until, old.modified_at)
            yield Loss(WHAT[table], lost + len(unplaced), since, until)
    yield from _find_lost_notes(db, old)


class _KnownTimes:
    """Until when an older ledger had read which session: what its logs say of later, it can't have lost."""

    def __init__(self, old: OldLedger) -> None:
        self._old = old
        self._until = dict(old.read_until)
        for table in COUNTED:
            for row in old.counted[table].values():
                if session := old.sessions.get(row[1]):
                    whose = (session.provider, session.session_id)
                    self._until[whose] = max(self._until.get(whose, 0.0), row[3])
        self._is_sure = old.knows("sources")

    def may_have(self, at: float, provider: str, session_id: str) -> bool:
        if not self._is_sure:
            return at <= self._old.modified_at
        found = (self._until.get((provider, name)) for name in (session_id, ""))
        return any(until is not None and at <= until + _SLACK_S for until in found)


def _find_lost_notes(db: sqlite3.Connection, old: OldLedger) -> Iterator[Loss]:
    """Of what could not be counted: lines that were skipped in logs that are gone, and what was lost before."""
    missing = old.count_unnoted("skips")
    noted = {(path, offset) for path, source in old.sources.items() for offset, _ in source.skips}
    is_sure = old.knows("sources")
    now = db.execute("SELECT path, skips.offset FROM skips JOIN sources ON sources.id = source").fetchall()
    again = sum(1 for skip in now if skip not in noted and (not is_sure or skip[0] in old.sources))
    if missing is None:
        yield Loss(_SKIPS, None, None, old.modified_at)
    elif missing > again:
        yield Loss(_SKIPS, missing - again, None, old.modified_at)
    missing = old.count_unnoted("losses")
    if missing is None or missing + len(old.losses) > db.execute("SELECT count(*) FROM losses").fetchone()[0]:
        yield Loss(ANYTHING, None, None, old.modified_at)


def _find_times(db: sqlite3.Connection, old: OldLedger, table: str, here: dict[int, float]) -> Iterator[float]:
    """When that was which is lost: by the sums, else by what the wrong rows say. Nothing where neither tells."""
    if table == "events" and sum(old.sums.values()) == old.seals.get(table, (None,))[0]:
        now = dict(db.execute("SELECT CAST(at / 900 AS INTEGER), count(*) FROM events GROUP BY 1"))
        for quarter, events in old.sums.items():
            if now.get(quarter, 0) < events:
                yield from (quarter * 900.0, (quarter + 1) * 900.0)
        return
    wrong = [row for row in old.wrong[table] if row[0] not in here]
    if len(wrong) == old.count_missing(table):
        yield from (float(row[3]) for row in wrong if isinstance(row[3], int | float))
