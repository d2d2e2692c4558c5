"""Whether the ledger is as it was written: rows by checksums, tables by seals, sums against their events.

SQLite notices broken pages, and neither a changed number nor a row that is gone. So each row ends with a checksum of
itself, and `seals` has for each table how many rows there are and the total of their checksums.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from corral.usage.rows import Row, Rows

SUM_FUNCTION = "row_sum"
COLUMNS = {
    "homes": "id, provider, path",
    "sessions": "id, home, scope, session_id, work_dir, has_log",
    "events": (
        "key, session, rank, at, agent, model, model_source, input, cache_read, cache_write, cache_write_1h, output,"
        " reasoning, branch, ambiguous, dollars, picos, assumed"
    ),
    "actions": "key, session, rank, at, kind, name",
    "unrecorded": "key, session, rank, at, kind",
    "sources": "id, path, device, inode, size, mtime_ns, head, head_size, offset, tail, deferred, described",
    "skips": "source, offset, reason",
    "labels": "id, model, branch",
    "prices": "model, listed_as, source, dated, assumed",
    "losses": "id, noticed_at, what, rows, since, until, acknowledged",
    "memo": "name, value",  # summed by the ledger itself: values are long
    "seals": "name, part, rows, total",
}
"""Of each table all that its rows' checksums are made of, in the order of the table."""
COUNTED = ("events", "actions", "unrecorded")
"""Tables of what was counted; their rows begin with key, session, rank and time."""
SEALED = tuple(name for name in COLUMNS if name not in ("memo", "seals"))
"""Tables of which `seals` knows how many rows there are: one that is gone shows. A row of `memo` that is gone costs
time and nothing else. One of `sources` may be the last to name the family of a log."""
NEW_COLUMNS = {"deferred": 0}
"""The value of a column that a ledger of an earlier schema does not have."""
FORMER_TABLES = {"actions": "deeds"}
"""How schema 4 called a table."""

QUARTER_S = 900
"""Sums are kept by quarter of an hour: every offset of a time zone is a multiple of it."""
DAY = 96
"""Quarters."""
SUMS = (
    *("quarter", "session", "label", "turns", "events", "input", "cache_read", "cache_write", "cache_write_1h"),
    *("output", "reasoning", "dollars", "picos", "unpriced", "assumed"),
)
"""The columns of `quarters`."""
_FACTORS = (
    *(174_763, 245_759, 131_101, 262_139, 199_999, 150_011, 230_003, 188_017, 211_007),
    *(143_977, 256_019, 167_009, 239_999, 221_021, 179_021),
)
_PRIME = 4_294_967_291
SUM_OF_NUMBERS = (
    f"(({' + '.join(f'{name} * {factor}' for name, factor in zip(SUMS, _FACTORS, strict=True))}) % {_PRIME})"
)
"""The checksum of a row of `quarters`, which has numbers only: SQLite makes it ten times as fast as we can."""


class Damaged(sqlite3.DatabaseError):
    """The ledger is not as it was written: what it says can't be used, and it has to be rebuilt from the logs."""

    seen: os.stat_result | None = None
    """The file, if nothing else has it open."""


def is_damage(error: BaseException) -> bool:
    """Whether an error of SQLite says that the file is not what it should be, and not that something is in its way."""
    # SQLite may quote what is in its place.
    if isinstance(error, Damaged | sqlite3.IntegrityError | sqlite3.DataError | UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, sqlite3.OperationalError):
        # Without a code: text that is none. SQLITE_ERROR: a table or column that should be there is not.
        return code in (None, sqlite3.SQLITE_ERROR)
    return type(error) is sqlite3.DatabaseError and code != sqlite3.SQLITE_AUTH


# --- rows


def sum_row(*values: object) -> int:
    """Of the values as Python writes them: types differ as well as contents."""
    return crc32(ascii(values).encode())


def is_right(row: Row) -> bool:
    """Whether a row that ends with its checksum is as it was written."""
    return crc32(ascii(row[:-1]).encode()) == row[-1]


def add_functions(db: sqlite3.Connection) -> None:
    db.create_function(SUM_FUNCTION, -1, sum_row, deterministic=True)


def select_rows(table: str) -> str:
    """The beginning of a query for whole rows, each with its checksum at the end."""
    return f"SELECT {COLUMNS[table]}, sum FROM {table}"


def set_sums(db: sqlite3.Connection, table: str, where: str = "1", values: Row = ()) -> None:
    """Give rows that were written their checksums."""
    db.execute(f"UPDATE {table} SET sum = {SUM_FUNCTION}({COLUMNS[table]}) WHERE {where}", values)


# --- seals

WHOLE = -1
"""The part of a seal that is of a whole table."""
Seal = tuple[int, int]
"""How many rows there are, and the total of their checksums."""
Seals = dict[tuple[str, int], Seal]


def put_seal(db: sqlite3.Connection, name: str, part: int, seal: Seal) -> None:
    db.execute("INSERT OR REPLACE INTO seals VALUES (?, ?, ?, ?, ?)", (name, part, *seal, sum_row(name, part, *seal)))


def seal_table(db: sqlite3.Connection, name: str) -> None:
    """All rows of a table are right as they are."""
    set_sums(db, name)
    put_seal(db, name, WHOLE, db.execute(f"SELECT count(*), coalesce(sum(sum), 0) FROM {name}").fetchone())


def seal_all(db: sqlite3.Connection) -> None:
    """A ledger that was just made: whatever is in it is right."""
    for name in SEALED:
        seal_table(db, name)


def read_seals(db: sqlite3.Connection) -> Seals:
    """What is known of tables, and of `quarters` by day. Raises Damaged."""
    found: Seals = {}
    for row in db.execute(select_rows("seals")):
        if not is_right(row):
            raise Damaged("the checksum of a table does not match")
        found[row[0], row[1]] = (row[2], row[3])
    days = _add_seals(seal for (name, part), seal in found.items() if name == "quarters" and part != WHOLE)
    if days != found.get(("quarters", WHOLE)) or any((name, WHOLE) not in found for name in SEALED):
        raise Damaged("the checksum of a table is missing")
    return found


def _add_seals(seals: Iterable[Seal]) -> Seal:
    some = list(seals)
    return sum(rows for rows, _ in some), sum(total for _, total in some)


# --- tables

_NUMBERED = {name: one for name, columns in COLUMNS.items() if (one := columns.partition(",")[0]) in ("id", "key")}
"""Tables whose rows have a number, and the column that it is in."""
_LOOKED_UP = {"homes": ("provider", "path"), "labels": ("model", "branch")}
"""Small tables whose rows are looked up by names."""


def check_table(db: sqlite3.Connection, name: str, seals: Seals) -> None:
    """Every row of a table, and that none is missing. Raises Damaged."""
    rows = total = 0
    last: int | None = None
    for row in db.execute(f"{select_rows(name)} NOT INDEXED"):
        if not is_right(row):
            raise Damaged(f"a row of {name} is not as it was written")
        if name in _NUMBERED:
            if last is not None and row[0] <= last:
                raise Damaged(f"{name} is out of order")
            last = row[0]
        rows += 1
        total += row[-1]
    if seals[name, WHOLE] != (rows, total):
        raise Damaged(f"{name} has not the rows that were written")
    if name in _NUMBERED:
        check_numbers(db, name)
    if name in _LOOKED_UP:
        _check_index(db, name)


def check_numbers(db: sqlite3.Connection, name: str) -> None:
    """Each row is found by its number. Raises Damaged.

    Going through a whole table does not show that the pages above the rows lead to others.
    """
    number = _NUMBERED[name]
    (left,) = db.execute(f"SELECT count(*) FROM {name} NOT INDEXED").fetchone()
    for odd in (0, 1):  # SQLite does not look for the next number: it goes on to the next row
        (found,) = db.execute(
            f"SELECT count(*) FROM {name} AS one NOT INDEXED CROSS JOIN {name} AS other NOT INDEXED"
            f" ON other.{number} = one.{number} WHERE one.{number} & 1 = {odd}"
        ).fetchone()
        left -= found
    if left:
        raise Damaged(f"rows of {name} are not found by their numbers")


def _check_index(db: sqlite3.Connection, name: str) -> None:
    """The index leads from each row's names to that row, and to no other. Raises Damaged."""
    index = f"INDEXED BY sqlite_autoindex_{name}_1"
    equal = " AND ".join(f"other.{column} = one.{column}" for column in _LOOKED_UP[name])
    found, there, listed = db.execute(
        f"SELECT count(*), (SELECT count(*) FROM {name} NOT INDEXED), (SELECT count(*) FROM {name} {index})"
        f" FROM {name} AS one NOT INDEXED CROSS JOIN {name} AS other {index} ON {equal} WHERE other.id = one.id"
    ).fetchone()
    if not found == there == listed:
        raise Damaged(f"the index of {name} is not as its rows are")


# --- sums

_DERIVED = (
    (
        f"""
SELECT CAST(at / {QUARTER_S} AS INTEGER), session, coalesce(model, ''), coalesce(branch, ''), count(*), sum(input),
    sum(cache_read), sum(cache_write), sum(cache_write_1h), sum(output), sum(reasoning),
    coalesce(sum(dollars), 0) + coalesce(sum(picos), 0) / 1000000000000, coalesce(sum(picos), 0) % 1000000000000,
    sum(dollars IS NULL), sum(assumed)
FROM events {{which}} GROUP BY 1, 2, 3, 4""",
        """
SELECT quarter, session, model, branch, events, input, cache_read, cache_write, cache_write_1h, output, reasoning,
    dollars, picos, unpriced, assumed
FROM (SELECT * FROM quarters {which} AND events > 0) CROSS JOIN labels NOT INDEXED ON labels.id = label""",
    ),
    (
        f"SELECT CAST(at / {QUARTER_S} AS INTEGER), session, count(*) FROM actions {{which}} AND kind = 'turn'"
        " GROUP BY 1, 2",
        "SELECT quarter, session, sum(turns) FROM quarters {which} AND turns != 0 GROUP BY 1, 2",
    ),
)
"""What sums are made of, and the sums."""


def check_sums(db: sqlite3.Connection, seals: Seals, days: tuple[int, int] | None) -> None:
    """The sums of all days or of some (both included) are as they were written. Raises Damaged."""
    where, values = (
        ("1", ()) if days is None else ("quarter >= ? AND quarter < ?", (days[0] * DAY, (days[1] + 1) * DAY))
    )
    *found, wrong = db.execute(
        f"SELECT count(*), coalesce(sum(sum), 0), coalesce(sum(sum IS NOT {SUM_OF_NUMBERS}), 0)"
        f" FROM quarters WHERE {where}",
        values,
    ).fetchone()
    sealed = _add_seals(
        seal
        for (name, day), seal in seals.items()
        if name == "quarters" and day != WHOLE and (days is None or days[0] <= day <= days[1])
    )
    if wrong or tuple(found) != sealed:
        raise Damaged("sums are not as they were written")


def check_derived(db: sqlite3.Connection, session: int | None = None) -> None:
    """All sums, or those of one session, are those of the requests and turns. Raises Damaged."""
    which, values = ("NOT INDEXED WHERE 1", ()) if session is None else ("WHERE session = ?1", (session,))
    for derived, kept in _DERIVED:
        for one, other in ((derived, kept), (kept, derived)):
            query = f"SELECT 1 FROM ({one} EXCEPT {other}) LIMIT 1".format(which=which)
            if db.execute(query, values).fetchone():
                raise Damaged("requests do not add up to their sums")


def check_session(db: sqlite3.Connection, session: int) -> None:
    """Its requests and turns, each by its checksum and all of them by the sums: none is missing. Raises Damaged."""
    turns = f"{select_rows('actions')} WHERE session = ? AND kind = 'turn'"
    for query in (f"{select_rows('events')} WHERE session = ?", turns):
        if not all(map(is_right, db.execute(query, (session,)))):
            raise Damaged("a request or turn is not as it was written")
    check_derived(db, session)


@contextmanager
def moment(db: sqlite3.Connection) -> Generator[None]:
    """Whatever is read within is of one moment, whoever writes meanwhile."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")  # COMMIT would fail where a page is torn


_FAR = 1 << 40
"""Days; no clock goes so far."""


class Checks:
    """Verifies what is about to be used, once for each state of the file."""

    def __init__(self, db: sqlite3.Connection, *, enabled: bool = True) -> None:
        """Not `enabled`: what a newer corral made is checked by rules that we do not know."""
        self._db = db
        self.enabled = enabled
        self._state: object = None
        self._done: set[object] = set()
        self._seals: Seals | None = None

    def _is_due(self, what: object) -> bool:
        """Whether it was not checked in this state of the file; from now on it counts as checked."""
        if not self.enabled:
            return False
        state = (self._db.execute("PRAGMA data_version").fetchone(), self._db.total_changes)
        if state != self._state:
            self._state, self._done, self._seals = state, set(), None
        return what not in self._done

    def _read_seals(self) -> Seals:
        if self._seals is None:
            self._seals = read_seals(self._db)
        return self._seals

    def tables(self, *names: str) -> None:
        """Every row of these tables, and that none is missing. Raises Damaged."""
        with moment(self._db):
            for name in names:
                if self._is_due(name):
                    check_table(self._db, name, self._read_seals())
                    self._done.add(name)

    def all(self) -> None:
        """All that is in it. Raises Damaged."""
        with moment(self._db):
            self.tables(*SEALED)
            self.sums()
            check_derived(self._db)

    def rows(self, table: str, ids: Iterable[int]) -> None:
        """Rows of a table by their numbers: that they are there, and right. Raises Damaged."""
        query = f"{select_rows(table)} WHERE id = ?"
        for number in ids if self.enabled else ():
            row = self._db.execute(query, (number,)).fetchone()
            if row is None or not is_right(row):
                raise Damaged(f"a row of {table} is not as it was written")

    def sums(self, since: int | None = None, until: int | None = None) -> None:
        """The sums from one quarter to another, both included; None: from the first, or to the last. Raises Damaged."""
        begin, end = -_FAR if since is None else since // DAY, _FAR if until is None else until // DAY
        days = None if since is until is None else (begin, end)
        with moment(self._db):
            if self._is_due(("quarters", days)) and self._is_due(("quarters", None)):
                self.tables("labels")
                check_sums(self._db, self._read_seals(), days)
                self._done.add(("quarters", days))

    def sessions(self, ids: Iterable[int]) -> None:
        """The requests and turns of these sessions: each of them, and that they add up to their sums."""
        with moment(self._db):
            for session in ids:
                if self._is_due(("session", session)):
                    check_session(self._db, session)
                    self._done.add(("session", session))


# --- changes

_SMALL = ("homes", "labels", "prices", "skips", "unrecorded")
"""Checked and sealed as a whole with every change."""
_NAMES_AT_ONCE = 500


class Change:
    """What a transaction is about to change: verified before, sealed after. Damage must not be sealed as right."""

    def __init__(self, db: sqlite3.Connection, stored: Sequence[Rows]) -> None:
        """Raises Damaged."""
        self._db = db
        self._seals = read_seals(db)
        for name in _SMALL:
            check_table(db, name, self._seals)
        if any(rows.since == 0 and (rows.events or rows.actions) for rows in stored):
            # It may be there already, in another session: an original that is not found would count again.
            check_numbers(db, "events")
            check_numbers(db, "actions")
        wrong = {key for rows in stored for _, key, _ in rows.wrong}
        paths = {rows.path for rows in stored}
        actions = {row[1] for rows in stored for row in rows.actions} | wrong
        events = {row[1] for rows in stored for row in rows.events} | wrong
        self._check_rows("sources", "path", paths)
        # What is about to be stored may be taken from the sessions that have it.
        owners = {
            row[1] for row in (*self._check_rows("actions", "key", actions), *self._check_rows("events", "key", events))
        }
        (self._last,) = db.execute("SELECT coalesce(max(id), 0) FROM sessions").fetchone()
        self._sessions = owners.union(_find_sessions(db, stored))
        self._check_rows("sessions", "id", self._sessions)
        for session in self._sessions:
            check_session(db, session)
        self._touched: dict[str, tuple[str, Collection[object]]] = {
            "sessions": ("id", self._sessions),
            "events": ("session", self._sessions),
            "actions": ("key", actions),
            "sources": ("path", paths),
        }
        """By table: what is changed, by which column."""
        self._before = self._tally()

    def finish(self, touched: Collection[int]) -> None:
        """Seal what was written. `touched` are the sessions of which something was."""
        self._sessions.update(touched)
        self._sessions.update(one for (one,) in self._db.execute("SELECT id FROM sessions WHERE id > ?", (self._last,)))
        for name, (column, values) in self._touched.items():
            for value in values:
                set_sums(self._db, name, f"{column} = ?", (value,))
        for name, (rows, total) in self._tally().items():
            before, sealed = self._before[name], self._seals[name, WHOLE]
            put_seal(self._db, name, WHOLE, (sealed[0] + rows - before[0], sealed[1] + total - before[1]))
        for name in _SMALL:
            seal_table(self._db, name)

    def _check_rows(self, table: str, column: str, values: Iterable[object]) -> list[Row]:
        """Those that are there."""
        query = f"{select_rows(table)} WHERE {column} = ?"
        place = COLUMNS[table].split(", ").index(column)
        found: list[Row] = []
        for value in values:
            row = self._db.execute(query, (value,)).fetchone()
            if row is not None:
                if not (is_right(row) and row[place] == value):
                    raise Damaged(f"a row of {table} is not as it was written")
                found.append(row)
        return found

    def _tally(self) -> dict[str, Seal]:
        return {
            name: _add_seals(
                self._db.execute(
                    f"SELECT count(*), coalesce(sum(sum), 0) FROM {name} WHERE {column} = ?", (value,)
                ).fetchone()
                for value in values
            )
            for name, (column, values) in self._touched.items()
        }


def _find_sessions(db: sqlite3.Connection, stored: Sequence[Rows]) -> Iterator[int]:
    """The sessions that are named in what is stored, in whichever container; of a file of a home, in any home.

    Also those that such a file alone names, where it counts otherwise than before: what is left of none of them goes.
    """
    select = "SELECT sessions.id FROM sessions NOT INDEXED JOIN homes ON homes.id = home WHERE provider = ?"
    for home in {(rows.provider, rows.home) for rows in stored if rows.wrong and not rows.session_id}:
        yield from (one for (one,) in db.execute(f"{select} AND path = ? AND scope = '' AND NOT has_log", home))
    named: dict[tuple[str, str | None], set[str]] = {}
    for rows in stored:
        names = named.setdefault((rows.provider, rows.home if rows.session_id else None), set())
        names.update(row[0] for some in (rows.events, rows.actions, rows.unrecorded, rows.wrong) for row in some)
        names.add(rows.session_id)
    for (provider, home), names in named.items():
        some = sorted(names)
        for begin in range(0, len(some), _NAMES_AT_ONCE):
            part = some[begin : begin + _NAMES_AT_ONCE]
            query = f"{select} AND coalesce(?, path) = path AND session_id IN ({', '.join('?' * len(part))})"
            yield from (one for (one,) in db.execute(query, (provider, home, *part)))
