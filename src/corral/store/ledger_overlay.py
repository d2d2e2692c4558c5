"""Adding to a ledger that was read from the logs what only an older one knows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from corral.store.ledger_old import COUNTED, OldLedger, OldSession
from corral.store.ledger_rows import STAND_IN, Row, SourceState
from corral.store.ledger_writer import ADD_KNOWN, Writer

_WIDTHS = {"events": 15, "deeds": 6, "unrecorded": 5}
"""Columns that are taken over: prices and checksums are made again."""


class Loss(NamedTuple):
    """What was counted once and could not be saved."""

    what: str
    rows: int | None
    """At least so many; None: can't be told, perhaps none."""
    since: float | None
    until: float | None


WHAT = {"events": "requests", "deeds": "turns and calls of tools", "unrecorded": "calls without tokens"}


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
    for table in COUNTED:
        right = old.counted[table]
        here: dict[int, float] = dict(db.execute(f"SELECT key, at FROM {table}"))
        unplaced = [
            row[3] for key, row in right.items() if key not in here and not (row[2] >= STAND_IN and row[1] in stood_in)
        ]
        again = sum(1 for key, at in here.items() if key not in right and at <= old.modified_at)
        missing = old.count_missing(table)
        if missing is None:
            yield Loss(WHAT[table], None, saved_until, old.modified_at)
        elif (lost := max(0, missing - again)) or unplaced:
            times = unplaced if not lost else [*unplaced, *_find_times(db, old, table, here)]
            since, until = (min(times), max(times)) if times else (saved_until, old.modified_at)
            yield Loss(WHAT[table], lost + len(unplaced), since, until)


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
