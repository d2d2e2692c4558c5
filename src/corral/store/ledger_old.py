"""What can still be believed of a ledger that is damaged, of a copy, or of one that an earlier corral made.

A row counts only with a right checksum. Ledgers before schema 4 have none: theirs are taken as they are.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.store.checksums import COLUMNS, SUM_OF_NUMBERS, is_right
from corral.store.ledger_checks import WHOLE, Seal
from corral.store.ledger_header import with_sound_header
from corral.store.ledger_rows import Row, storable
from corral.store.private_file import read_only_uri

COUNTED = ("events", "deeds", "unrecorded")
"""Tables of what was counted; their rows begin with key, session, rank and time."""
_PAGE_BYTES = 4096


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


@dataclass(kw_only=True)
class OldLedger:
    """All rows that are right, by key."""

    path: str
    modified_at: float
    sealed: bool = True
    """False: made before rows had checksums."""
    homes: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    sessions: dict[int, OldSession] = field(default_factory=dict[int, OldSession])
    counted: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: dict[int, Row]() for name in COUNTED})
    wrong: dict[str, list[Row]] = field(default_factory=lambda: {name: list[Row]() for name in COUNTED})
    """Rows that can be read and are not right."""
    torn: set[str] = field(default_factory=set[str])
    """Tables that could not be read to their end."""
    described_homes: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Of which homes logs were read."""
    sources: dict[str, OldSource] = field(default_factory=dict[str, OldSource])
    sources_seal: Seal = (0, 0)
    """Of those that are right."""
    losses: list[Row] = field(default_factory=list[Row])
    seals: dict[str, Seal] = field(default_factory=dict[str, Seal])
    sums: dict[int, int] = field(default_factory=dict[int, int])
    """How many requests there were in each quarter of an hour, by sums that are right."""

    def is_complete(self) -> bool:
        """Whether nothing that it ever counted is missing here, and of all of it is known whose it is."""
        rows = (row for name in COUNTED for row in self.counted[name].values())
        return all(self.count_missing(name) == 0 for name in COUNTED) and all(row[1] in self.sessions for row in rows)

    def knows_sources(self) -> bool:
        """Whether nothing is missing of what it was told about the files that it read."""
        return self.seals.get("sources") == self.sources_seal

    def count_missing(self, table: str) -> int | None:
        """How many rows of a table of what was counted are gone or wrong; None if that can't be told."""
        rows = self.counted[table].values()
        if table in self.seals:
            missing = self.seals[table][0] - len(rows)
            return missing if missing or self.seals[table][1] == sum(row[-1] for row in rows) else None
        return None if table in self.torn else len(self.wrong[table])


def keep_damaged(path: str) -> str:
    """Give a ledger, and what its log still holds, a second name that nothing else has.

    The first name goes only when a new ledger takes it: who is killed before has lost nothing.
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
    """None when nothing of it can be read. Raises OSError only when it is gone."""
    found = OldLedger(path=path, modified_at=os.stat(path).st_mtime)
    try:
        with with_sound_header(path, _PAGE_BYTES) as sound:
            return found if _read(sound, found) else None
    except OSError:  # there is no room for a copy
        return found if _read(path, found) else None


def _read(path: str, found: OldLedger) -> bool:
    try:
        db = sqlite3.connect(read_only_uri(path), uri=True)
    except sqlite3.Error:
        return False
    try:
        db.text_factory = _decode
        columns = _list_columns(db, "events")
        if not columns:
            return False
        found.sealed = "sum" in columns
        if found.sealed or "described" in _list_columns(db, "sources"):
            _read_sources(db, found)
        sessions = list(_read_rows(db, found, "sessions"))
        homes = {row[0]: (row[1], row[2]) for row in _read_rows(db, found, "homes")}
        homes = _find_homes(found, sessions) | homes
        found.homes = set(homes.values())
        for number, home, scope, session_id, work_dir, has_log, *_ in sessions:
            if home in homes:
                found.sessions[number] = OldSession(*homes[home], scope, session_id, work_dir, has_log)
        modernise = None if found.sealed else _find_modernising(found)
        for table in COUNTED:
            for row in _read_rows(db, found, table, modernise):
                found.counted[table][row[0]] = row
        if found.sealed:
            found.losses = list(_read_rows(db, found, "losses"))
            found.seals = {row[0]: (row[2], row[3]) for row in _read_rows(db, found, "seals") if row[1] == WHOLE}
            query = f"SELECT quarter, events, sum = {SUM_OF_NUMBERS} FROM quarters"
            for quarter, events, right in _read_on(db, found, "quarters", query, ("", " ORDER BY quarter DESC")):
                if right and isinstance(quarter, int) and isinstance(events, int):
                    found.sums[quarter] = found.sums.get(quarter, 0) + events
        return True
    finally:
        db.close()


def _decode(data: bytes) -> str:
    return data.decode(errors="surrogateescape")  # damaged text must not stop the rest


def _list_columns(db: sqlite3.Connection, table: str) -> list[str]:
    with suppress(sqlite3.Error, UnicodeError):
        return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    return []


def _read_rows(
    db: sqlite3.Connection, found: OldLedger, table: str, modernise: Callable[[str, Row], Row | None] | None = None
) -> Iterator[Row]:
    """Rows that are right, with their checksums; each may come twice."""
    there = _list_columns(db, table)
    wanted = [name if name in there else _absent(name) for name in COLUMNS[table].split(", ")]
    query = f"SELECT {', '.join(wanted)}, {'sum' if found.sealed else '0'} FROM {table}"
    orders = (
        (" NOT INDEXED ORDER BY rowid", " NOT INDEXED ORDER BY rowid DESC")
        if "id" in there or "key" in there
        else ("",)
    )
    seen: set[object] = set()
    for row in _read_on(db, found, table, query, orders):
        if row[0] in seen and len(orders) > 1:
            continue
        seen.add(row[0])
        right = is_right(row) if found.sealed else _is_plausible(table, row)
        if right:
            changed = modernise(table, row) if modernise is not None else row
            if changed is not None:
                yield changed
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


def _absent(name: str) -> str:
    """What stands for a column that an early ledger does not have."""
    return {"assumed": "0", "ambiguous": "0", "has_log": "1"}.get(name, "NULL")


def _is_plausible(table: str, row: Row) -> bool:
    """Of a row without a checksum: whether it can be used at all."""
    if any(isinstance(value, str) and not _is_text(value) for value in row):
        return False
    if table not in COUNTED:
        return True
    counts = row[7:13] if table == "events" else ()
    return (
        isinstance(row[1], int)
        and isinstance(row[3], int | float)
        and all(isinstance(count, int) and count >= 0 for count in counts)
    )


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_modernising(found: OldLedger) -> Callable[[str, Row], Row | None]:
    """Before schema 3 an event was known by the provider's own id, and a rank began with two digits."""
    from corral.store.row_making import digest

    def modernise(table: str, row: Row) -> Row | None:
        key, session, rank, *rest = row
        if isinstance(key, str):
            if session not in found.sessions:
                return None
            key, rank = digest(found.sessions[session].provider, key), int(str(rank)[:2])
        return (key, session, rank, *rest)

    return modernise


def _find_homes(found: OldLedger, sessions: list[Row]) -> dict[int, tuple[str, str]]:
    """Which home has which number, by logs that name both a session and its home: one row must not cost all of them."""
    import msgspec

    from corral.model.usage import UsageSource

    named: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for source in found.sources.values():
        try:
            described = msgspec.json.decode(source.row[-1] or "", type=UsageSource)
        except (msgspec.MsgspecError, TypeError):
            continue
        found.described_homes.add((described.provider, storable(described.home)))
        key = (storable(described.scope), described.session_id)
        named.setdefault(key, set()).add((described.provider, storable(described.home)))
    homes: dict[int, set[tuple[str, str]]] = {}
    for _, home, scope, session_id, *_ in sessions:
        places = named.get((scope, session_id), ())
        if len(places) == 1:
            homes.setdefault(home, set()).update(places)
    return {home: next(iter(places)) for home, places in homes.items() if len(places) == 1}


def _read_sources(db: sqlite3.Connection, found: OldLedger) -> None:
    paths: dict[int, str] = {}
    for number, *row, checksum in _read_rows(db, found, "sources"):
        paths[number] = row[0]
        found.sources_seal = (found.sources_seal[0] + 1, found.sources_seal[1] + checksum)
        found.sources[row[0]] = OldSource(tuple(row), [])
    for source, offset, reason, _ in _read_rows(db, found, "skips"):
        if source in paths:
            found.sources[paths[source]].skips.append((offset, reason))
