"""Rebuilding the ledger: from the logs that exist, and from what only an older one knows."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import astuple

from corral.model.descent import Descent
from corral.model.usage import UsageSource
from corral.model.usage_report import LossRow
from corral.providers.settings import read_settings
from corral.state.locks import take_lock
from corral.usage.checks import COLUMNS, COUNTED, QUARTER_S
from corral.usage.ledger import COPIES, Known, Ledger
from corral.usage.price_table import TablePricer, note_all_origins
from corral.usage.read import OnProgress
from corral.usage.rows import PLAIN, SHARED, STAND_IN, Row, SourceState, rank_forks
from corral.usage.salvage import OldLedger, OldSession, keep_damaged, read_old
from corral.usage.scan import scan_homes
from corral.usage.schema import is_newer, transaction
from corral.usage.sums import price_all
from corral.usage.writer import ADD_KNOWN, Writer

_WAIT_SECONDS = 60.0


def rebuild(
    state_dir: str,
    why: str | None,
    seen: os.stat_result | None,
    *,
    unwritable: str | None = None,
    on_progress: OnProgress | None = None,
) -> Ledger:
    """The ledger, rebuilt in place of the file `seen`; one process at a time. Raises OSError or sqlite3.Error.

    The old file stays, under another name. What is in no log any more comes from it and, if it is damaged, from its
    copies: row by row, and only with a right checksum. What is lost is noted in the new one. `why` is None where
    somebody asked for it, and the old one is in order as far as anybody knows.
    """
    path = os.path.join(state_dir, "ledger.db")
    if unwritable is not None:
        return _rebuild(state_dir, why, path, unwritable, on_progress)
    lock = take_lock(state_dir, "ledger.lock", wait_seconds=_WAIT_SECONDS)
    if lock is None:
        raise sqlite3.OperationalError("another corral has been rebuilding it for long")
    try:
        if seen is None or not os.path.samestat(seen, os.stat(path)):
            ledger = Ledger(state_dir, aside=True)
            ledger.notice = f"the ledger could not be used ({why}): another corral has just rebuilt it"
            return ledger
        if is_newer(path):  # what a newer corral made is its own
            raise sqlite3.DatabaseError(why or "")
        return _rebuild(state_dir, why, keep_damaged(path), None, on_progress)
    finally:
        os.close(lock)


def _rebuild(
    state_dir: str, why: str | None, kept: str, unwritable: str | None, on_progress: OnProgress | None
) -> Ledger:
    old = read_old(kept)
    is_enough = old is not None and old.is_complete()
    copies = [os.path.join(state_dir, f"ledger.db.{number}") for number in range(1, COPIES + 1)]
    known = [one for one in (old, *map(read_old, () if is_enough else copies)) if one is not None]
    ledger = Ledger(state_dir, again=True, unwritable=unwritable)
    try:
        ledger.known = _list_known(known)
        scan_homes(ledger, on_progress)
        saved, is_all = _add_older(ledger, old, known, kept)
        ledger.publish()
    except BaseException:
        ledger.close()
        raise
    if why is None:
        ledger.notice = f"the ledger was rebuilt from the logs; the old one is {kept}"
    else:
        gone = "" if is_all else "; not all of it could be saved"
        ledger.notice = (
            f"the ledger could not be used ({why}): it was rebuilt from the logs, with {saved} rows that only it and"
            f" its copies knew{gone}; the old one is {kept}"
        )
    return ledger


def _list_known(known: list[OldLedger]) -> Known:
    """Homes also where only the row of a log names them. What the ledger itself knew is newer than its copies."""
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


def _add_older(ledger: Ledger, old: OldLedger | None, known: list[OldLedger], kept: str) -> tuple[int, bool]:
    """Add what is in no log: how many rows that were, and whether nothing is lost."""
    db = ledger.db
    saved_until = max((one.modified_at for one in known if one is not old and one.is_complete()), default=None)
    before, changes = _count(db), db.total_changes
    with transaction(db):
        families = _Families(db, known)
        for one in known:
            _settle_ranks(one, families)
            _settle_keys(db, one, families)
            _add_known(db, one)
        if db.total_changes > changes:
            pricer = TablePricer(read_settings())
            price_all(db, pricer)
            note_all_origins(db, pricer)
        losses: list[LossRow] = []
        if old is not None:
            losses += _find_losses(db, old, saved_until)
        elif os.path.exists(kept):
            losses.append(LossRow(time.time(), _ANYTHING, None, saved_until, os.stat(kept).st_mtime))
        add_loss = "INSERT INTO losses (noticed_at, what, rows, since, until) VALUES (?, ?, ?, ?, ?)"
        db.executemany(add_loss, map(astuple, losses))
    return _count(db) - before, not losses


def _count(db: sqlite3.Connection) -> int:
    return db.execute(f"SELECT {'+'.join(f'(SELECT count(*) FROM {table})' for table in COUNTED)}").fetchone()[0]


# --- rows of an older ledger

_WIDTHS = {"events": 15, "actions": 6, "unrecorded": 5}
"""Columns that are taken over: prices and checksums are made again."""
_KEEP_PROJECT = (
    "UPDATE sessions SET work_dir = iif(has_log, iif({}, coalesce(work_dir, ?1), work_dir),"
    " min(coalesce(work_dir, ?1), coalesce(?1, work_dir))) WHERE id = ?2"
)
"""What its own log said once holds where that says it no more; what copies said, by the rule for them in Writer."""


def _add_known(db: sqlite3.Connection, old: OldLedger) -> None:
    """Prices and sums are to be made after. Where a log says the same, the log holds."""
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
        self._read = {number for (number,) in db.execute("SELECT id FROM sessions WHERE has_log")}

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


# --- keys and ranks that the logs give now
#
# What was forked from what may be known better than when a ledger, or a copy of it, was written. Where a provider has
# families of forks, a key begins with the family: a row that has another key now must not be taken for one that only
# the older ledger knows, or it would be counted twice. Where copies name their origin, the older ledger may have taken
# the fork of a fork for a fork: the logs that are there must not lose their own to it.

_SAYS = {
    "events": (3, 4, 7, 8, 9, 10, 11, 12),  # when, which agent, and the tokens
    "actions": (3, 4, 5),
    "unrecorded": (3, 4),
}
"""The columns that make a row what it is, whoever's it is. Models come beside them."""
_MODEL, _MODEL_SOURCE, _AMBIGUOUS = 5, 6, 14


class _Families:
    """Which sessions are of one family, by all that a new ledger and older ones know."""

    def __init__(self, db: sqlite3.Connection, known: Sequence[OldLedger]) -> None:
        self.providers: set[str] = set()
        """Those whose keys begin with a family."""
        self._groups: dict[str, set[str]] = {}
        found = [source.described for one in reversed(known) for source in one.sources.values()]
        for (described,) in db.execute("SELECT described FROM sources WHERE described IS NOT NULL"):
            found.append(msgspec.json.decode(described, type=UsageSource))
        sources = [one for one in found if one is not None]
        for one in sources:
            self._join(one)
        self.descent = Descent(sources)

    def _join(self, source: UsageSource) -> None:
        if source.family:
            self.providers.add(source.provider)
        names = {name for name in (source.session_id, source.parent_id, source.family, *source.lineage) if name}
        joined = names.union(*(self._groups.get(name, ()) for name in names))
        self._groups.update(dict.fromkeys(joined, joined))

    def are_one(self, session_id: str, other: str) -> bool:
        return session_id == other or other in self._groups.get(session_id, ())


def _settle_ranks(old: OldLedger, families: _Families) -> None:
    """Give copies that name their origin the rank that they have by all that is known now."""
    for rows in old.counted.values():
        for key, row in rows.items():
            if PLAIN < row[2] < SHARED and row[1] in old.sessions and not _has_family(old, row, families):
                before = families.descent.list_before(old.sessions[row[1]].session_id)
                rows[key] = (*row[:2], max(row[2], rank_forks(len(before) + 1)), *row[3:])


def _settle_keys(db: sqlite3.Connection, old: OldLedger, families: _Families) -> None:
    """Give rows of an older ledger the keys that the logs have given them, before it is added.

    Compared are rows that only one of the two has by key. Equal ones of one session or family are the same. Those of
    others are so too where the older ledger has lost some of what it knew about its files. Then the row
    that is there holds. Each row is the same as one at most.
    """
    knows_families = old.knows("sources")
    read = {one for (one,) in db.execute("SELECT session_id FROM sessions WHERE has_log")}
    for table in COUNTED:
        rows = old.counted[table]
        strange = [row for row in rows.values() if _has_family(old, row, families) and not _is_there(db, table, row[0])]
        if not strange:
            continue
        others = _Others(db, table, rows.keys(), families.providers)
        left: list[Row] = []
        for row in strange:
            mine = old.sessions[row[1]].session_id
            same = others.take(row, lambda session_id, mine=mine: families.are_one(mine, session_id))
            if same is None:
                left.append(row)
                continue
            del rows[row[0]]
            rows[same[0]] = _with_key(row, same[0], _find_rank(row[2], same[2], is_read=mine in read))
        for row in left if not knows_families else ():
            if others.take(row, lambda _: True) is not None:
                del rows[row[0]]


def _has_family(old: OldLedger, row: Row, families: _Families) -> bool:
    session = old.sessions.get(row[1])
    return session is not None and session.provider in families.providers


def _is_there(db: sqlite3.Connection, table: str, key: int) -> bool:
    return db.execute(f"SELECT 1 FROM {table} WHERE key = ?", (key,)).fetchone() is not None


class _Others:
    """The rows of a new ledger that an older one does not know by their keys. Each can be one of the older's rows."""

    def __init__(self, db: sqlite3.Connection, table: str, known: Collection[int], providers: Collection[str]) -> None:
        self._places = _SAYS[table]
        self._has_model = table == "events"
        self._rows: dict[Row, list[tuple[str, Row]]] = {}
        columns = ", ".join(f"{table}.{name}" for name in COLUMNS[table].split(", "))
        query = (
            f"SELECT session_id, {columns} FROM {table} JOIN sessions ON sessions.id = session"
            f" JOIN homes ON homes.id = home WHERE provider IN ({', '.join('?' * len(providers))}) ORDER BY key"
        )
        for session_id, *row in db.execute(query, [*providers]):
            if row[0] not in known:
                self._rows.setdefault(self._say(tuple(row)), []).append((session_id, tuple(row)))

    def take(self, row: Row, is_wanted: Callable[[str], bool]) -> Row | None:
        """One that says the same, of a session that is wanted."""
        equal = self._rows.get(self._say(row), [])
        for place, (session_id, other) in enumerate(equal):
            if is_wanted(session_id) and (not self._has_model or _may_be_one(row, other)):
                del equal[place]
                return other
        return None

    def _say(self, row: Row) -> Row:
        return tuple(row[place] for place in self._places)


def _may_be_one(one: Row, other: Row) -> bool:
    """A model that no log records is what the config said when the request was read."""
    are_recorded = one[_MODEL_SOURCE] == other[_MODEL_SOURCE] == "recorded"
    return not are_recorded or one[_MODEL] == other[_MODEL]


def _find_rank(was: int, now: int, *, is_read: bool) -> int:
    """The rank by which a session keeps a row that another has now, or does not.

    Where its own log was just read, that has been decided. Else the older ledger decided between forks, and knew of
    more sessions before them than are left.
    """
    if is_read:
        return now + 1
    return was - 1 if was == now > PLAIN else was


def _with_key(row: Row, key: int, rank: int) -> Row:
    """What was ambiguous under another key is not so under this one, unless the logs say so."""
    return (key, row[1], rank, *row[3:_AMBIGUOUS], *([0, *row[_AMBIGUOUS + 1 :]] if len(row) > _AMBIGUOUS else ()))


# --- what is lost

_WHAT = {"events": "requests", "actions": "turns and calls of tools", "unrecorded": "calls without tokens"}
_ANYTHING = "requests, turns and calls of tools"
_SKIPS = "notes on skipped lines"
_SLACK_S = 2.0
"""Some disks keep times of files no finer."""


def _find_losses(db: sqlite3.Connection, old: OldLedger, saved_until: float | None) -> Iterator[LossRow]:
    """What an older ledger had and this one has not. `saved_until`: a copy of then was complete."""
    where = "SELECT provider, session_id FROM sessions JOIN homes ON homes.id = home WHERE has_log"
    read = set(db.execute(where))
    stood_in = {number for number, one in old.sessions.items() if (one.provider, one.session_id) in read}
    known, now = _KnownTimes(old), time.time()
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
            yield LossRow(now, _WHAT[table], None, saved_until, old.modified_at)
        elif (lost := max(0, missing - again)) or unplaced:
            times = unplaced if not lost else [*unplaced, *_find_times(db, old, table, here)]
            since, until = (min(times), max(times)) if times else (saved_until, old.modified_at)
            yield LossRow(now, _WHAT[table], lost + len(unplaced), since, until)
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


def _find_lost_notes(db: sqlite3.Connection, old: OldLedger) -> Iterator[LossRow]:
    """Of what could not be counted: lines that were skipped in logs that are gone, and what was lost before."""
    missing = old.count_missing("skips")
    noted = {(path, offset) for path, source in old.sources.items() for offset, _ in source.skips}
    is_sure = old.knows("sources")
    now = db.execute("SELECT path, skips.offset FROM skips JOIN sources ON sources.id = source").fetchall()
    again = sum(1 for skip in now if skip not in noted and (not is_sure or skip[0] in old.sources))
    if missing is None:
        yield LossRow(time.time(), _SKIPS, None, None, old.modified_at)
    elif missing > again:
        yield LossRow(time.time(), _SKIPS, missing - again, None, old.modified_at)
    missing = old.count_missing("losses")
    if missing is None or missing + len(old.losses) > db.execute("SELECT count(*) FROM losses").fetchone()[0]:
        yield LossRow(time.time(), _ANYTHING, None, None, old.modified_at)


def _find_times(db: sqlite3.Connection, old: OldLedger, table: str, here: dict[int, float]) -> Iterator[float]:
    """When that was which is lost: by the sums, else by what the wrong rows say. Nothing where neither says."""
    if table == "events" and sum(old.sums.values()) == old.seals.get(table, (None,))[0]:
        now = dict(db.execute(f"SELECT CAST(at / {QUARTER_S} AS INTEGER), count(*) FROM events GROUP BY 1"))
        for quarter, events in old.sums.items():
            if now.get(quarter, 0) < events:
                yield from (quarter * float(QUARTER_S), (quarter + 1) * float(QUARTER_S))
        return
    wrong = [row for row in old.wrong[table] if row[0] not in here]
    if len(wrong) == old.count_missing(table):
        yield from (float(row[3]) for row in wrong if isinstance(row[3], int | float))
