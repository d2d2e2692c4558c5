"""What can still be believed of a ledger that is damaged, or of a copy. A row counts only with a right checksum."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from corral.model.usage import UsageSource
from corral.state.private_file import make_private, name_aside, read_only_uri
from corral.usage.checks import COLUMNS, COUNTED, FORMER_TABLES, NEW_COLUMNS, SUM_OF_NUMBERS, WHOLE, Seal, is_right
from corral.usage.rows import Row, SourceState, is_read, storable

_NOTED = ("skips", "losses")
"""Tables of what could not be counted."""
_HEADER = struct.Struct(">16sH6B4I8I20x2I")
_PAGE_BYTES, _WAL, _FRACTIONS, _FORMAT, _UTF8 = 4096, 2, (64, 32, 32), 4, 1
_SOUND = _HEADER.pack(
    *(b"SQLite format 3\0", _PAGE_BYTES, _WAL, _WAL, 0, *_FRACTIONS),
    *(1, 0, 0, 0),  # change counters that differ (this 1 and the last 0) let SQLite count the pages by the file's size
    *(1, _FORMAT, 0, 0, _UTF8, 0, 0, 0, 0, 0),
)
"""The first bytes of every ledger. What differs are counters, which SQLite can do without."""


class OldSession(NamedTuple):
    """A session by what it is called, not by its number."""

    provider: str
    home: str
    scope: str
    session_id: str
    work_dir: str | None
    has_log: int


class OldSource(NamedTuple):
    """A file that was read, and what was skipped in it."""

    row: Row
    """Without its number and its checksum: path, state, described."""
    skips: list[tuple[int, str]]

    @property
    def described(self) -> UsageSource | None:
        """Whose file it was; None: not known."""
        try:
            return msgspec.json.decode(self.row[-1] or "", type=UsageSource)
        except (msgspec.MsgspecError, TypeError):
            return None


@dataclass(kw_only=True)
class OldLedger:
    """All rows that are right, by key."""

    modified_at: float
    homes: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    sessions: dict[int, OldSession] = field(default_factory=dict[int, OldSession])
    counted: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: dict[int, Row]() for name in COUNTED})
    wrong: dict[str, list[Row]] = field(default_factory=lambda: {name: list[Row]() for name in (*COUNTED, *_NOTED)})
    """Rows that can be read and are not right."""
    right: dict[str, Seal] = field(default_factory=dict[str, Seal])
    """How many rows of each table are right, and the total of their checksums."""
    torn: set[str] = field(default_factory=set[str])
    """Tables that could not be read to their end."""
    described_homes: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Of which homes logs were read."""
    sources: dict[str, OldSource] = field(default_factory=dict[str, OldSource])
    read_until: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """By provider and session: of when the newest log of it was that was read; without a session, of a whole home."""
    losses: list[Row] = field(default_factory=list[Row])
    seals: dict[str, Seal] = field(default_factory=dict[str, Seal])
    sums: dict[int, int] = field(default_factory=dict[int, int])
    """How many requests there were in each quarter of an hour, by sums that are right."""

    def is_complete(self) -> bool:
        """Whether nothing that it ever counted is missing here, and it is known to which session all of it belongs."""
        rows = (row for name in COUNTED for row in self.counted[name].values())
        missing = [*map(self.count_missing, (*COUNTED, *_NOTED))]
        return all(one == 0 for one in missing) and all(row[1] in self.sessions for row in rows)

    def knows(self, table: str) -> bool:
        """Whether nothing is missing of a table."""
        return self.seals.get(table) == self.right.get(table, (0, 0))

    def count_missing(self, table: str) -> int | None:
        """How many rows of a table are gone or wrong; None: not known."""
        rows, _ = self.right.get(table, (0, 0))
        if table in self.seals:
            missing = self.seals[table][0] - rows
            return missing if missing or self.knows(table) else None
        if table == "events" and self.knows("quarters"):
            return sum(self.sums.values()) - rows
        return None if table in self.torn else len(self.wrong[table])

    def add_right(self, table: str, checksum: int) -> None:
        rows, total = self.right.get(table, (0, 0))
        self.right[table] = (rows + 1, total + checksum)


def keep_damaged(path: str) -> str:
    """Give a ledger, and what its log still holds, a second name that nothing else has.

    The first name goes only when a new ledger takes it: a process that is killed before has lost nothing.
    """
    stamp, number = time.strftime("%Y%m%dT%H%M%S"), 1
    while os.path.lexists(kept := f"{path}.broken-{stamp}" + (f"-{number}" if number > 1 else "")):
        number += 1
    for suffix in ("-wal", ""):
        with suppress(FileNotFoundError):
            try:
                os.link(path + suffix, kept + suffix)
            except FileNotFoundError:
                raise
            except OSError:  # a filesystem without links
                shutil.copyfile(path + suffix, kept + suffix)
                os.chmod(kept + suffix, 0o600)
    return kept


def read_old(path: str) -> OldLedger | None:
    """None when nothing of it can be read."""
    if not os.path.isfile(path):
        return None
    try:
        modified_at = os.stat(path).st_mtime
        try:
            with _sound_copy(path) as copy:
                return _read(copy, OldLedger(modified_at=modified_at))
        except OSError:  # there is no room for a copy
            return _read(path, OldLedger(modified_at=modified_at))
    except (OSError, sqlite3.Error, UnicodeError):
        return None


@contextmanager
def _sound_copy(path: str) -> Generator[str]:
    """A copy with its log and a sound header, that is gone after. A file too short for a header is left as it is."""
    if os.path.getsize(path) < _HEADER.size:
        yield path
        return
    copy = name_aside(os.path.join(os.path.dirname(path), "ledger.db"))  # swept if we are killed
    try:
        for suffix in ("-wal", ""):
            with suppress(FileNotFoundError):
                make_private(copy + suffix)
                shutil.copyfile(path + suffix, copy + suffix)
        with open(copy, "r+b") as file:
            file.write(_SOUND)
        yield copy
    finally:
        for suffix in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                os.unlink(copy + suffix)


def _read(path: str, found: OldLedger) -> OldLedger | None:
    db = sqlite3.connect(read_only_uri(path), uri=True)
    try:
        db.text_factory = _decode
        if "sum" not in _list_columns(db, "events"):  # no ledger, or one from before the first release
            return None
        _read_sources(db, found)
        sessions = list(_read_rows(db, found, "sessions"))
        # A row of `labels` has as many words, and a right checksum there: no name of a branch begins so.
        homes = {row[0]: (row[1], row[2]) for row in _read_rows(db, found, "homes") if os.path.isabs(row[2])}
        homes = _find_homes(found, sessions) | homes
        found.homes = set(homes.values())
        for number, home, scope, session_id, work_dir, has_log, *_ in sessions:
            if home in homes:
                found.sessions[number] = OldSession(*homes[home], scope, session_id, work_dir, has_log)
        for table in COUNTED:
            found.counted[table] = {row[0]: row for row in _read_rows(db, found, table)}
        found.losses = list(_read_rows(db, found, "losses"))
        now = {former: name for name, former in FORMER_TABLES.items()}
        seals = [row for row in _read_rows(db, found, "seals") if row[1] == WHOLE]
        found.seals = {str(now.get(row[0], row[0])): (row[2], row[3]) for row in seals}
        query = f"SELECT quarter, events, sum, sum IS {SUM_OF_NUMBERS} FROM quarters"
        for quarter, events, checksum, right in _read_on(db, found, "quarters", query, ("", " ORDER BY quarter DESC")):
            if right and isinstance(quarter, int) and isinstance(events, int):
                found.sums[quarter] = found.sums.get(quarter, 0) + events
                found.add_right("quarters", checksum)
        return found
    finally:
        db.close()


def _decode(data: bytes) -> str:
    return data.decode(errors="surrogateescape")  # damaged text must not stop the rest


def _list_columns(db: sqlite3.Connection, table: str) -> list[str]:
    with suppress(sqlite3.Error, UnicodeError):
        return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    return []


def _read_rows(db: sqlite3.Connection, found: OldLedger, table: str) -> Iterator[Row]:
    """Rows that are right, with their checksums."""
    names = COLUMNS[table].split(", ")
    called, there = table, _list_columns(db, table)
    if not there and table in FORMER_TABLES:
        called, there = FORMER_TABLES[table], _list_columns(db, FORMER_TABLES[table])
    known = [name for name in names if name in there]
    is_numbered = "id" in there or "key" in there
    orders = (" NOT INDEXED ORDER BY rowid", " NOT INDEXED ORDER BY rowid DESC") if is_numbered else ("",)
    seen: set[object] = set()
    for row in _read_on(db, found, table, f"SELECT {', '.join(known)}, sum FROM {called}", orders):
        if is_numbered and row[0] in seen:
            continue
        seen.add(row[0])
        if is_right(row):
            found.add_right(table, row[-1])
            by_name = dict(zip(known, row, strict=False))
            yield row if known == names else (*(by_name.get(name, NEW_COLUMNS.get(name)) for name in names), row[-1])
        elif table in found.wrong:
            found.wrong[table].append(row)


def _read_on(
    db: sqlite3.Connection, found: OldLedger, table: str, query: str, orders: tuple[str, ...]
) -> Iterator[Row]:
    """Rows from the start to the first bad page, then from the end back to it."""
    for order in orders:
        try:
            yield from db.execute(query + order)
            return
        except (sqlite3.Error, UnicodeError, OverflowError):
            found.torn.add(table)


def _read_sources(db: sqlite3.Connection, found: OldLedger) -> None:
    paths: dict[int, str] = {}
    for number, *row, _ in _read_rows(db, found, "sources"):
        paths[number] = row[0]
        found.sources[row[0]] = OldSource(tuple(row), [])
    for source, offset, reason, _ in _read_rows(db, found, "skips"):
        if source in paths:
            found.sources[paths[source]].skips.append((offset, reason))


def _find_homes(found: OldLedger, sessions: list[Row]) -> dict[int, tuple[str, str]]:
    """Which home has which number, by logs that name both a session and its home: one row must not cost all of them."""
    named: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for source in found.sources.values():
        described = source.described
        if described is None:
            continue
        home = (described.provider, storable(described.home))
        found.described_homes.add(home)
        state = SourceState(*source.row[1:-1])
        if not state.deferred:
            written_at = state.mtime_ns / 1e9 if is_read(state) else found.modified_at
            whose = (described.provider, described.session_id)
            found.read_until[whose] = max(found.read_until.get(whose, 0.0), written_at)
        named.setdefault((storable(described.scope), described.session_id), set()).add(home)
    homes: dict[int, set[tuple[str, str]]] = {}
    for _, home, scope, session_id, *_ in sessions:
        places = named.get((scope, session_id), ())
        if len(places) == 1:
            homes.setdefault(home, set()).update(places)
    return {home: next(iter(places)) for home, places in homes.items() if len(places) == 1}
