"""Questions in SQL over the ledger's documented views: read-only, within a time, with the costs worked out."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import NamedTuple

from msgspec import Struct

from corral.errors import CorralError
from corral.machine import places
from corral.model.prices import PICOS
from corral.model.usage import TokenUsage
from corral.model.usage_report import LossRow
from corral.providers.settings import read_settings
from corral.state.private_file import read_only_uri
from corral.usage.answers import naming_trouble, repair_ledger
from corral.usage.checks import COLUMNS, Checks, Damaged, is_damage
from corral.usage.price_table import read_price_table
from corral.usage.prices import Prices, count_picos
from corral.usage.report import read_losses
from corral.usage.schema import SCHEMA, find_schema

_COLUMN = re.compile(r"    .*?\bAS (\w+),?\s*(?:-- (.*))?\Z")
_VIEW = re.compile(r"CREATE TEMP VIEW (\w+) AS SELECT\Z")


class Column(NamedTuple):
    """A column, and what it means where its name does not say it."""

    name: str
    meaning: str


class View(NamedTuple):
    """One documented view."""

    name: str
    meaning: str
    columns: tuple[Column, ...]


def _read_definitions() -> str:
    """The statements that make the views, on a connection to the ledger."""
    with open(os.path.join(os.path.dirname(__file__), "views.sql"), encoding="utf-8") as file:
        return file.read()


def list_views() -> list[View]:
    """Names, columns and meanings, in the order of the file."""
    views: list[View] = []
    for block in _read_definitions().split("\n\n")[1:]:
        meaning, head, *lines = block.strip().split("\n")
        view = _VIEW.match(head)
        if view is None:
            raise ValueError(f"views.sql: {head!r} begins no view")
        columns: list[Column] = []
        for line in lines:
            if not line.startswith("    "):
                break
            found = _COLUMN.match(line)
            if found is None:
                raise ValueError(f"views.sql: {line!r} is not a column")
            columns.append(Column(found[1], found[2] or ""))
        views.append(View(view[1], meaning.removeprefix("-- "), tuple(columns)))
    return views


_STEPS = 20_000
"""Between two looks at the clock; some milliseconds."""
_LONGEST_VALUE = 16 << 20
_ROWS_AT_ONCE = 1000
_UNSAFE_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
_MISSING = re.compile(r"no such (column|table): (\S+)")

CostFunction = Callable[..., float | None]
"""Model, time and the six kinds of tokens of a request: US dollars, or None."""


class Answer(Struct, frozen=True, kw_only=True):
    """Column names, and the rows as they come. Reading them raises CorralError when the time is up."""

    columns: tuple[str, ...]
    losses: tuple[LossRow, ...]
    """What was counted once and is in no answer."""
    rows: Iterator[tuple[object, ...]]


@contextmanager
def ask(query: str, seconds: float, on_repaired: Callable[[str], None]) -> Generator[Answer]:
    """Run one SELECT. Raises CorralError: exit code 2 for a query that can't be run, 1 for all else.

    All rows of the tables that it reads are checked first. Where one is not as it was written the ledger is rebuilt,
    `on_repaired` hears of it, and the query is run once more.
    """
    path = os.path.join(places.state_dir(), "ledger.db")
    with naming_trouble():
        try:
            running = _Running(path, query, seconds)
        except Damaged as damaged:
            _repair(damaged, on_repaired)
            running = _Running(path, query, seconds)
    try:
        yield Answer(columns=running.columns, losses=running.losses, rows=running.rows(on_repaired))
    finally:
        running.ledger.close()


def _repair(damaged: Damaged, on_repaired: Callable[[str], None]) -> None:
    ledger = repair_ledger(str(damaged), damaged.seen)
    ledger.close()
    on_repaired(ledger.notice or "")


class _Running:
    """A query whose first rows are there: all that it reads was checked by then, and nobody saw a row yet."""

    def __init__(self, path: str, query: str, seconds: float) -> None:
        self.ledger = _open(path, seconds)
        self._seconds = seconds
        self._seen = os.stat(path)
        try:
            with self._naming_problems():
                self.losses = self.ledger.list_losses()
                self._cursor = self.ledger.execute(query)
                if not self._cursor.description:
                    raise CorralError("that asks for nothing: only SELECT can be run", exit_code=2)
                self.columns = tuple(_distinct([column[0] for column in self._cursor.description]))
                self._first = self._cursor.fetchmany(_ROWS_AT_ONCE)
        except BaseException:
            self.ledger.close()
            raise

    def rows(self, on_repaired: Callable[[str], None]) -> Iterator[tuple[object, ...]]:
        rows = self._first
        while rows:
            yield from rows
            try:
                with self._naming_problems():
                    rows = self._cursor.fetchmany(_ROWS_AT_ONCE)
            except Damaged as damaged:
                with naming_trouble():
                    _repair(damaged, on_repaired)
                # Rows that were given can't be taken back, and the new file may have them in another order.
                message = "the ledger was damaged among these rows, and has been repaired: ask again"
                raise CorralError(message) from damaged

    @contextmanager
    def _naming_problems(self) -> Generator[None]:
        """SQLite's complaints as messages for people; those about the file itself as Damaged."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            if isinstance(error, sqlite3.OperationalError) and self.ledger.is_late():
                hint = "narrow it down, or allow more with --timeout"
                raise CorralError(f"the query took longer than {self._seconds:g} s", hint=hint) from None
            # These two are about words that SQLite does not understand. All that a query reads was checked before.
            if is_damage(error) and not isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError):
                raise _damaged(error, self._seen) from error
            problem = str(error)
            raise CorralError(f"the query can't be run: {_say(problem)}", hint=_hint(problem), exit_code=2) from error


def _open(path: str, seconds: float) -> GuardedLedger:
    try:
        return GuardedLedger(path, _cost_function(), seconds)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if is_damage(error) and os.path.exists(path):
            raise _damaged(error, os.stat(path)) from error
        hint = None if os.path.exists(path) else "corral usage reads the logs and makes it"
        raise CorralError(f"the ledger {path} can't be asked: {error}", hint=hint) from error


def _damaged(error: Exception, seen: os.stat_result) -> Damaged:
    damaged = Damaged(str(error))
    damaged.seen = seen
    return damaged


class GuardedLedger:
    """The ledger, read-only in four ways: opened so, set so, authorized so, and cut off in time."""

    def __init__(self, path: str, cost_usd: CostFunction, seconds: float) -> None:
        """Raises sqlite3.Error when there is no ledger, or one whose tables are not as these views expect."""
        self._deadline = time.monotonic() + seconds
        self._db = sqlite3.connect(_find_uri(path), uri=True, isolation_level=None, timeout=5)
        self._is_ours = False
        """Whether it is this program that asks, and not the person."""
        self._tables: set[str] = set()
        self._checks = Checks(self._db, enabled=find_schema(self._db) == SCHEMA)
        self._db.create_function("cost_usd", 8, cost_usd, deterministic=True)
        self._db.executescript(_read_definitions())
        self._views = frozenset(view.name for view in list_views())
        self._db.execute("PRAGMA query_only = ON")
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        self._db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._db.set_authorizer(self._authorize)
        self._db.set_progress_handler(self.is_late, _STEPS)

    def execute(self, query: str) -> sqlite3.Cursor:
        """Raises sqlite3.Error for a bad query, and Damaged where a table it reads is not as it was written."""
        with suppress(sqlite3.Error, sqlite3.Warning, ValueError):  # a bad query shows when it is run
            self._db.execute(f"EXPLAIN {query}").close()
        with self._asking():
            for table in sorted(self._tables & COLUMNS.keys()) if self._checks.enabled else ():
                self._checks.tables(table)
                # An index may miss what its table has.
                for (problem,) in self._db.execute(f"PRAGMA integrity_check({table})"):
                    if problem != "ok":
                        raise Damaged(problem)
        return self._db.execute(query)

    def list_losses(self) -> tuple[LossRow, ...]:
        """Those that nobody has acknowledged. Raises as `execute` does."""
        with self._asking():
            return read_losses(self._db, self._checks)

    @contextmanager
    def _asking(self) -> Generator[None]:
        """What is checked is what is read. Whatever is wrong with our own questions is wrong with the file."""
        self._is_ours = True
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if is_damage(error):
                raise Damaged(str(error)) from error
            raise
        finally:
            self._is_ours = False

    def close(self) -> None:
        self._db.close()

    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._deadline

    def _authorize(
        self, action: int, one: str | None, two: str | None, database: str | None, within: str | None
    ) -> int:
        if self._is_ours:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and database == "main" and one is not None:
            self._tables.add(one)
        match action:
            case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
                allowed = True
            case sqlite3.SQLITE_READ:
                # The tables beneath may change: they are read through the views alone. Without a column nothing
                # is read, only rows are counted; SQLite does not say for which view.
                counted = database == "main" and two == ""
                allowed = database == "temp" or within in self._views or counted
            case sqlite3.SQLITE_FUNCTION:
                allowed = two not in _UNSAFE_FUNCTIONS
            case _:
                allowed = False
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _find_uri(path: str) -> str:
    """Where nothing can be written SQLite can't share the file, and nobody changes it: it is read as it is."""
    alone = not os.access(os.path.dirname(path), os.W_OK) and not os.path.exists(f"{path}-wal")
    return read_only_uri(path) + ("&immutable=1" if alone else "")


def _say(problem: str) -> str:
    if "not authorized" in problem or "prohibited" in problem or "denied" in problem:
        return f"only SELECT over the documented views is allowed ({problem})"
    return problem


def _hint(problem: str) -> str:
    """The name that may be meant, or where names are listed."""
    missing = _MISSING.search(problem)
    if missing is not None:
        views = list_views()
        columns = sorted({column.name for view in views for column in view.columns})
        names = columns if missing[1] == "column" else [view.name for view in views]
        close = get_close_matches(missing[2].rpartition(".")[2], names, 1)
        if close:
            return f"did you mean {close[0]}? corral sql --schema lists all"
    return "corral sql --schema lists views and columns"


def _distinct(names: list[str]) -> Iterator[str]:
    """Column names as keys: the second `n` is called `n_2`."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}_{seen[name]}"


def _cost_function() -> Callable[..., float | None]:
    """What a request costs in dollars, for SQL. The price table is read when the first price is asked for."""
    known: list[Prices] = []

    def cost_usd(model: str | None, at: float, *tokens: int) -> float | None:
        if not known:
            known.append(Prices(read_price_table().table, read_settings().prices))
        rates = known[0].resolve(model, at)
        return None if rates is None else count_picos(rates, TokenUsage(*tokens)) / PICOS

    return cost_usd
