"""Whether the ledger is as it was written: rows by checksums, tables by seals, sums against their events."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager

from corral.usage.checksums import (
    COLUMNS,
    SEALED,
    SUM_OF_NUMBERS,
    Damaged,
    is_right,
    select_rows,
    set_sums,
    sum_row,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.usage.rows import Rows

WHOLE = -1
DAY = 96
"""Quarters of an hour."""
_NAMES_AT_ONCE = 500
_FAR = 1 << 40
"""Days; no clock goes so far."""
_DERIVED = """
SELECT quarter, sum(turns), sum(events), sum(input), sum(cache_read), sum(cache_write), sum(cache_write_1h),
    sum(output), sum(reasoning), sum(dollars) + sum(picos) / 1000000000000, sum(picos) % 1000000000000, sum(unpriced),
    sum(assumed)
FROM ({rows}) GROUP BY quarter ORDER BY quarter"""
_FROM_EVENTS = """
SELECT CAST(at / 900 AS INTEGER) AS quarter, 0 AS turns, 1 AS events, input, cache_read, cache_write, cache_write_1h,
    output, reasoning, coalesce(dollars, 0) AS dollars, coalesce(picos, 0) AS picos, dollars IS NULL AS unpriced,
    assumed
FROM events WHERE session = ?1
UNION ALL SELECT CAST(at / 900 AS INTEGER), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM actions
WHERE session = ?1 AND kind = 'turn'"""

_DERIVED_BY_LABEL = (
    """
SELECT CAST(at / 900 AS INTEGER), session, coalesce(model, ''), coalesce(branch, ''), count(*), sum(input),
    sum(cache_read), sum(cache_write), sum(cache_write_1h), sum(output), sum(reasoning),
    coalesce(sum(dollars), 0) + coalesce(sum(picos), 0) / 1000000000000, coalesce(sum(picos), 0) % 1000000000000,
    sum(dollars IS NULL), sum(assumed)
FROM events NOT INDEXED GROUP BY 1, 2, 3, 4""",
    """
SELECT quarter, session, model, branch, events, input, cache_read, cache_write, cache_write_1h, output, reasoning,
    dollars, picos, unpriced, assumed
FROM quarters CROSS JOIN labels NOT INDEXED ON labels.id = label WHERE events > 0""",
)
_DERIVED_TURNS = (
    "SELECT CAST(at / 900 AS INTEGER), session, count(*) FROM actions NOT INDEXED WHERE kind = 'turn' GROUP BY 1, 2",
    "SELECT quarter, session, sum(turns) FROM quarters WHERE turns != 0 GROUP BY 1, 2",
)
"""What sums are made of, and the sums."""
_NUMBERED = {name: one for name, columns in COLUMNS.items() if (one := columns.partition(",")[0]) in ("id", "key")}
"""Tables whose rows have a number, and the column that it is in."""
_LOOKED_UP = {"homes": ("provider", "path"), "labels": ("model", "branch")}
"""Small tables whose rows are looked up by names."""

Seal = tuple[int, int]
"""How many rows there are, and the total of their checksums."""


class Checks:
    """Verifies what is about to be used, once for each state of the file."""

    def __init__(self, db: sqlite3.Connection, *, enabled: bool = True) -> None:
        """Not `enabled`: what a newer corral made is checked by rules that we do not know."""
        self._db = db
        self.enabled = enabled
        self._state: object = None
        self._done: set[object] = set()
        self._seals: dict[tuple[str, int], Seal] | None = None

    def _is_done(self, what: object) -> bool:
        if not self.enabled:
            return True
        state = (self._db.execute("PRAGMA data_version").fetchone(), self._db.total_changes)
        if state != self._state:
            self._state, self._done, self._seals = state, set(), None
        return what in self._done

    @contextmanager
    def _moment(self) -> Generator[None]:
        """Rows and seals are of one moment, whoever writes meanwhile."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")  # COMMIT would fail where a page is torn

    def tables(self, *names: str) -> None:
        """Every row of these tables, and that none is missing. Raises Damaged."""
        with self._moment():
            for name in names:
                if not self._is_done(name):
                    check_table(self._db, name, self._read_seals() if name in SEALED else None)
                    self._done.add(name)

    def all(self) -> None:
        """All that is in it. Raises Damaged."""
        with self._moment():
            self.tables(*(name for name in COLUMNS if name not in ("memo", "seals")))
            self.sums()
            check_derived(self._db)

    def _read_seals(self) -> dict[tuple[str, int], Seal]:
        if self._seals is None:
            self._seals = read_seals(self._db)
        return self._seals

    def rows(self, table: str, ids: Iterable[int]) -> None:
        """Rows of a table by their numbers: that they are there, and right. Raises Damaged."""
        query = f"{select_rows(table)} WHERE id = ?"
        for number in ids if self.enabled else ():
            row = self._db.execute(query, (number,)).fetchone()
            if row is None or not is_right(row):
                raise Damaged(f"a row of {table} is not as it was written")

    def sums(self, since: int | None = None, until: int | None = None) -> None:
        """The sums from one quarter to another, both included, or from the first, or to the last. Raises Damaged."""
        days = None if since is until is None else (_to_day(since, -_FAR), _to_day(until, _FAR))
        with self._moment():
            if not self._is_done(("quarters", days)) and not self._is_done(("quarters", None)):
                self.tables("labels")
                check_sums(self._db, self._read_seals(), days)
                self._done.add(("quarters", days))

    def sessions(self, ids: Iterable[int]) -> None:
        """The requests and turns of these sessions: each of them, and that they add up to their sums."""
        with self._moment():
            for session in ids:
                if not self._is_done(("session", session)):
                    check_session(self._db, session)
                    self._done.add(("session", session))


def _to_day(quarter: int | None, otherwise: int) -> int:
    return otherwise if quarter is None else quarter // DAY


def read_seals(db: sqlite3.Connection) -> dict[tuple[str, int], Seal]:
    """What is known of tables and days. Raises Damaged."""
    found: dict[tuple[str, int], Seal] = {}
    for row in db.execute(select_rows("seals")):
        if not is_right(row):
            raise Damaged("the checksum of a table does not match")
        found[row[0], row[1]] = (row[2], row[3])
    days = [seal for (name, part), seal in found.items() if name == "quarters" and part != WHOLE]
    whole = (sum(rows for rows, _ in days), sum(total for _, total in days))
    if whole != found.get(("quarters", WHOLE)) or any((name, WHOLE) not in found for name in SEALED):
        raise Damaged("the checksum of a table is missing")
    return found


def check_table(db: sqlite3.Connection, name: str, seals: dict[tuple[str, int], Seal] | None) -> None:
    """Of tables with a seal also that no row is missing. Raises Damaged."""
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
    if seals is not None and seals[name, WHOLE] != (rows, total):
        raise Damaged(f"{name} has not the rows that were written")
    if name in _NUMBERED:
        check_numbers(db, name)
    if name in _LOOKED_UP:
        _check_index(db, name)


def check_numbers(db: sqlite3.Connection, name: str) -> None:
    """Each row is found by its number. Raises Damaged.

    Who goes through a whole table does not notice that the pages above the rows lead to others.
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


def check_sums(db: sqlite3.Connection, seals: dict[tuple[str, int], Seal], days: tuple[int, int] | None) -> None:
    """The sums of all days or of some (both included). Raises Damaged."""
    where, values = (
        ("1", ()) if days is None else ("quarter >= ? AND quarter < ?", (days[0] * DAY, (days[1] + 1) * DAY))
    )
    rows, total, wrong = db.execute(
        f"SELECT count(*), coalesce(sum(sum), 0), coalesce(sum(sum IS NOT {SUM_OF_NUMBERS}), 0)"
        f" FROM quarters WHERE {where}",
        values,
    ).fetchone()
    sealed = [
        seal
        for (name, day), seal in seals.items()
        if name == "quarters" and day != WHOLE and (days is None or days[0] <= day <= days[1])
    ]
    if wrong or (rows, total) != (sum(seal[0] for seal in sealed), sum(seal[1] for seal in sealed)):
        raise Damaged("sums are not as they were written")


def check_session(db: sqlite3.Connection, session: int) -> None:
    """Its requests and turns, each by its checksum and all of them by the sums: none is missing. Raises Damaged."""
    turns = f"{select_rows('actions')} WHERE session = ? AND kind = 'turn'"
    for query in (f"{select_rows('events')} WHERE session = ?", turns):
        for row in db.execute(query, (session,)):
            if not is_right(row):
                raise Damaged("a request or turn is not as it was written")
    derived = db.execute(_DERIVED.format(rows=_FROM_EVENTS), (session,)).fetchall()
    kept = db.execute(_DERIVED.format(rows="SELECT * FROM quarters WHERE session = ?1"), (session,)).fetchall()
    if derived != kept:
        raise Damaged("requests do not add up to their sums")


def check_derived(db: sqlite3.Connection) -> None:
    """All sums, by model and branch too, are those of the requests and turns. Raises Damaged."""
    for derived, kept in _DERIVED_BY_LABEL, _DERIVED_TURNS:
        for one, other in ((derived, kept), (kept, derived)):
            if db.execute(f"SELECT 1 FROM ({one} EXCEPT {other}) LIMIT 1").fetchone():
                raise Damaged("requests do not add up to their sums")


class Change:
    """What a transaction is about to change, verified before; sealed after. Damage must not be sealed as right."""

    def __init__(self, db: sqlite3.Connection, stored: Sequence[Rows]) -> None:
        """Raises Damaged."""
        self._db = db
        self._seals = read_seals(db)
        for name in ("homes", "labels", "prices", "skips", "unrecorded"):
            check_table(db, name, self._seals)
        self._paths = {rows.path for rows in stored}
        if any(rows.since == 0 and (rows.events or rows.actions) for rows in stored):
            # It may be there already, in another session: an original that is not found would count again.
            check_numbers(db, "events")
            check_numbers(db, "actions")
        self._check_rows("sources", "path", self._paths)
        wrong = {key for rows in stored for _, key, _ in rows.wrong}
        self._actions = {row[1] for rows in stored for row in rows.actions} | wrong
        self._check_rows("actions", "key", self._actions)
        self._events = {row[1] for rows in stored for row in rows.events} | wrong
        self._check_rows("events", "key", self._events)
        (self._last,) = db.execute("SELECT coalesce(max(id), 0) FROM sessions").fetchone()
        self._sessions = set(_find_sessions(db, stored)) | self._find_owners()
        self._check_rows("sessions", "id", self._sessions)
        for session in self._sessions:
            check_session(db, session)
        self._before = self._tally()

    def finish(self, touched: Collection[int]) -> None:
        """Seal what was written. `touched` are the sessions of which something was."""
        db = self._db
        new = {one for (one,) in db.execute("SELECT id FROM sessions WHERE id > ?", (self._last,))}
        self._sessions |= new | set(touched)
        for session in self._sessions:
            set_sums(db, "sessions", "id = ?", (session,))
            set_sums(db, "events", "session = ?", (session,))
        for key in self._actions:
            set_sums(db, "actions", "key = ?", (key,))
        for path in self._paths:
            set_sums(db, "sources", "path = ?", (path,))
        for name, (rows, total) in self._tally().items():
            before, sealed = self._before[name], self._seals[name, WHOLE]
            put_seal(db, name, WHOLE, (sealed[0] + rows - before[0], sealed[1] + total - before[1]))
        for name in ("homes", "labels", "prices", "skips", "unrecorded"):
            set_sums(db, name)
            seal_table(db, name)

    def _check_rows(self, table: str, column: str, values: Iterable[object]) -> None:
        query = f"{select_rows(table)} WHERE {column} = ?"
        place = COLUMNS[table].split(", ").index(column)
        for value in values:
            row = self._db.execute(query, (value,)).fetchone()
            if row is not None and not (is_right(row) and row[place] == value):
                raise Damaged(f"a row of {table} is not as it was written")

    def _find_owners(self) -> set[int]:
        """The sessions that have what is about to be stored: it may be taken from them."""
        found: set[int] = set()
        for table, keys in (("events", self._events), ("actions", self._actions)):
            for key in keys:
                row = self._db.execute(f"SELECT session FROM {table} WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found.add(row[0])
        return found

    def _tally(self) -> dict[str, Seal]:
        return {
            "sessions": self._sum("sessions", "id", self._sessions),
            "events": self._sum("events", "session", self._sessions),
            "actions": self._sum("actions", "key", self._actions),
            "sources": self._sum("sources", "path", self._paths),
        }

    def _sum(self, table: str, column: str, values: Iterable[int | str]) -> Seal:
        rows = total = 0
        query = f"SELECT count(*), coalesce(sum(sum), 0) FROM {table} WHERE {column} = ?"
        for value in values:
            more = self._db.execute(query, (value,)).fetchone()
            rows, total = rows + more[0], total + more[1]
        return rows, total


@contextmanager
def sealing_source(db: sqlite3.Connection, path: str) -> Generator[None]:
    """Within, what is known of one file is written; nothing else. Raises Damaged."""
    query = "SELECT count(*), coalesce(sum(sum), 0) FROM sources WHERE path = ?"
    rows, total = read_seals(db)["sources", WHOLE]
    less_rows, less = db.execute(query, (path,)).fetchone()
    yield
    set_sums(db, "sources", "path = ?", (path,))
    more_rows, more = db.execute(query, (path,)).fetchone()
    put_seal(db, "sources", WHOLE, (rows - less_rows + more_rows, total - less + more))


def _find_sessions(db: sqlite3.Connection, stored: Sequence[Rows]) -> Iterable[int]:
    """The sessions that are named in what is stored, in whichever container; of a file of a home, in any home.

    Also those that such a file alone names, where it counts otherwise than before: what is left of none of them goes.
    """
    for home in {(rows.provider, rows.home) for rows in stored if rows.wrong and not rows.session_id}:
        query = (
            "SELECT sessions.id FROM sessions NOT INDEXED JOIN homes ON homes.id = home"
            " WHERE provider = ? AND path = ? AND scope = '' AND NOT has_log"
        )
        yield from (one for (one,) in db.execute(query, home))
    named: dict[tuple[str, str | None], set[str]] = {}
    for rows in stored:
        names = named.setdefault((rows.provider, rows.home if rows.session_id else None), set())
        names.update(row[0] for some in (rows.events, rows.actions, rows.unrecorded) for row in some)
        names.update(name for name, _, _ in rows.wrong)
        names.add(rows.session_id)
    for (provider, home), names in named.items():
        some = sorted(names)
        for begin in range(0, len(some), _NAMES_AT_ONCE):
            part = some[begin : begin + _NAMES_AT_ONCE]
            query = (
                "SELECT sessions.id FROM sessions NOT INDEXED JOIN homes ON homes.id = home WHERE provider = ?"
                f" AND coalesce(?, path) = path AND session_id IN ({', '.join('?' * len(part))})"
            )
            yield from (one for (one,) in db.execute(query, (provider, home, *part)))


def put_seal(db: sqlite3.Connection, name: str, part: int, seal: Seal) -> None:
    db.execute("INSERT OR REPLACE INTO seals VALUES (?, ?, ?, ?, ?)", (name, part, *seal, sum_row(name, part, *seal)))


def seal_table(db: sqlite3.Connection, name: str) -> None:
    """A table whose rows are right as they are."""
    put_seal(db, name, WHOLE, db.execute(f"SELECT count(*), coalesce(sum(sum), 0) FROM {name}").fetchone())


def seal_all(db: sqlite3.Connection) -> None:
    """A ledger that was just made: whatever is in it is right."""
    for name in COLUMNS:
        if name not in ("seals", "memo"):
            set_sums(db, name)
    for name in SEALED:
        seal_table(db, name)
