"""Rows that an older ledger has under other keys or ranks than the logs give them now.

What was forked from what may be known better than when a ledger, or a copy of it, was written. Where a provider has
families of forks, a key begins with the family: a row that has another key now must not be taken for one that only the
older ledger knows, or it would be counted twice. Where copies name their origin, the older ledger may have taken the
fork of a fork for a fork: the logs that are there must not lose their own to it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence

import msgspec

from corral.model.descent import Descent
from corral.model.usage import UsageSource
from corral.usage.checksums import COLUMNS
from corral.usage.rows import PLAIN, SHARED, Row, rank_forks
from corral.usage.salvage import COUNTED, OldLedger

_SAYS = {
    "events": (3, 4, 7, 8, 9, 10, 11, 12),  # when, which agent, and the tokens
    "actions": (3, 4, 5),
    "unrecorded": (3, 4),
}
"""The columns that make a row what it is, whoever's it is. Models come beside them."""
_MODEL, _MODEL_SOURCE, _AMBIGUOUS = 5, 6, 14


class Families:
    """Which sessions are of one family, by all that a new ledger and older ones were told."""

    def __init__(self, db: sqlite3.Connection, known: Sequence[OldLedger]) -> None:
        self.providers: set[str] = set()
        """Those whose keys begin with a family."""
        self._groups: dict[str, set[str]] = {}
        told = [described for (described,) in db.execute("SELECT described FROM sources")]
        sources: list[UsageSource] = []
        for described in (*(source.row[-1] for one in reversed(known) for source in one.sources.values()), *told):
            try:
                sources.append(msgspec.json.decode(described if isinstance(described, str) else "", type=UsageSource))
            except msgspec.MsgspecError:
                continue
            self._join(sources[-1])
        self.descent = Descent(sources)

    def _join(self, source: UsageSource) -> None:
        if source.family:
            self.providers.add(source.provider)
        names = {name for name in (source.session_id, source.parent_id, source.family, *source.lineage) if name}
        joined = names.union(*(self._groups.get(name, ()) for name in names))
        self._groups.update(dict.fromkeys(joined, joined))

    def are_one(self, session_id: str, other: str) -> bool:
        return session_id == other or other in self._groups.get(session_id, ())


def settle_ranks(old: OldLedger, families: Families) -> None:
    """Give copies that name their origin the rank that they have by all that is known now."""
    for rows in old.counted.values():
        for key, row in rows.items():
            if PLAIN < row[2] < SHARED and row[1] in old.sessions and not _has_family(old, row, families):
                before = families.descent.list_before(old.sessions[row[1]].session_id)
                rows[key] = (*row[:2], max(row[2], rank_forks(len(before) + 1)), *row[3:])


def settle_keys(db: sqlite3.Connection, old: OldLedger, families: Families) -> None:
    """Give rows of an older ledger the keys that the logs have given them, before it is added.

    Compared are rows that only one of the two has by key. Equal ones of one session or family are the same. Those of
    others are so too where the older ledger has lost some of what it was told about its files. Then the row
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


def _has_family(old: OldLedger, row: Row, families: Families) -> bool:
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
    more sessions before them than are left to tell.
    """
    if is_read:
        return now + 1
    return was - 1 if was == now > PLAIN else was


def _with_key(row: Row, key: int, rank: int) -> Row:
    """What was ambiguous under another key is not so under this one, unless the logs say so."""
    return (key, row[1], rank, *row[3:_AMBIGUOUS], *([0, *row[_AMBIGUOUS + 1 :]] if len(row) > _AMBIGUOUS else ()))
