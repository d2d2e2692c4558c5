"""Questions in SQL over the ledger's documented views: read-only, within a time, with the costs worked out."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from msgspec import Struct

from corral.engine.ledger_access import mend_ledger, telling_trouble
from corral.engine.settings import read_settings
from corral.engine.usage_types import LossRow
from corral.errors import CorralError
from corral.model.prices import PICOS
from corral.model.usage import TokenUsage
from corral.store.checksums import is_damage
from corral.store.sql_guard import GuardedLedger, TimeUp
from corral.store.sql_views import list_views
from corral.system import places
from corral.system.price_table import read_price_table
from corral.verdicts.pricing import Prices, count_picos

SCHEMA = 1
_ROWS_AT_ONCE = 1000
_MISSING = re.compile(r"no such (column|table): (\S+)")


class Answer(Struct, frozen=True, kw_only=True):
    """Column names, and the rows as they come. Reading them raises CorralError when the time is up."""

    columns: tuple[str, ...]
    losses: tuple[LossRow, ...]
    """What was counted once and is in no answer."""
    rows: Iterator[tuple[object, ...]]


@contextmanager
def ask(query: str, seconds: float, on_mended: Callable[[str], None]) -> Generator[Answer]:
    """Run one SELECT. Raises CorralError: exit code 2 for a query that can't be run, 1 for all else.

    All rows of the tables that it reads are checked first. Where one is not as it was written the ledger is made again,
    `on_mended` is told so, and the query is run once more.
    """
    path = os.path.join(places.state_dir(), "ledger.db")
    with telling_trouble():
        try:
            running = _Running(path, query, seconds)
        except _Torn as torn:
            _mend(torn, on_mended)
            running = _Running(path, query, seconds)
    try:
        yield Answer(columns=running.columns, losses=running.losses, rows=running.rows(on_mended))
    finally:
        running.close()


class _Torn(sqlite3.DatabaseError):
    """Something in the file `seen` is not what it should be."""

    def __init__(self, why: str, seen: os.stat_result) -> None:
        super().__init__(why)
        self.seen = seen


def _mend(torn: _Torn, on_mended: Callable[[str], None]) -> None:
    ledger = mend_ledger(str(torn), torn.seen)
    ledger.close()
    on_mended(ledger.notice or "")


class _Running:
    """A query whose first rows are there: all that it reads was checked by then, and nobody saw a row yet."""

    def __init__(self, path: str, query: str, seconds: float) -> None:
        self._seconds = seconds
        self._ledger = _open(path, seconds)
        self._seen = os.stat(path)
        try:
            with _told(seconds, self._seen):
                self.losses = tuple(LossRow(*row) for row in self._ledger.list_losses())
                self._cursor = self._ledger.execute(query)
                if not self._cursor.description:
                    raise CorralError("that asks for nothing: only SELECT can be run", exit_code=2)
                self.columns = tuple(_distinct([column[0] for column in self._cursor.description]))
                self._first = self._ledger.fetch(self._cursor, _ROWS_AT_ONCE)
        except BaseException:
            self._ledger.close()
            raise

    def rows(self, on_mended: Callable[[str], None]) -> Iterator[tuple[object, ...]]:
        rows = self._first
        while rows:
            yield from rows
            try:
                with _told(self._seconds, self._seen):
                    rows = self._ledger.fetch(self._cursor, _ROWS_AT_ONCE)
            except _Torn as torn:
                with telling_trouble():
                    _mend(torn, on_mended)
                # Rows that were given can't be taken back, and the new file may have them in another order.
                raise CorralError("the ledger was damaged amid these rows, and is mended now: ask again") from torn

    def close(self) -> None:
        self._ledger.close()


def _open(path: str, seconds: float) -> GuardedLedger:
    try:
        return GuardedLedger(path, _cost_function(), seconds)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if is_damage(error) and os.path.exists(path):
            raise _Torn(str(error), os.stat(path)) from error
        hint = None if os.path.exists(path) else "corral usage reads the logs and makes it"
        raise CorralError(f"the ledger {path} can't be asked: {error}", hint=hint) from error


@contextmanager
def _told(seconds: float, seen: os.stat_result) -> Generator[None]:
    """SQLite's complaints as messages for people; of the file `seen` itself as _Torn."""
    try:
        yield
    except TimeUp:
        hint = "narrow it down, or allow more with --timeout"
        raise CorralError(f"the query took longer than {seconds:g} s", hint=hint) from None
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        if is_damage(error) and not _is_of_the_query(error):
            raise _Torn(str(error), seen) from error
        raise CorralError(f"the query can't be run: {_say(str(error))}", hint=_hint(str(error)), exit_code=2) from error


def _is_of_the_query(error: Exception) -> bool:
    """What SQLite says of words that it does not understand. All that a query reads was checked before."""
    return isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError)


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
