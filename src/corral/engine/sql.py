"""Questions in SQL over the ledger's documented views: read-only, within a time, with the costs worked out."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from msgspec import Struct

from corral.engine.settings import read_settings
from corral.errors import CorralError
from corral.model.prices import PICOS
from corral.model.usage import TokenUsage
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
    rows: Iterator[tuple[object, ...]]


@contextmanager
def ask(query: str, seconds: float) -> Generator[Answer]:
    """Run one SELECT. Raises CorralError: exit code 2 for a query that can't be run, 1 for all else."""
    path = os.path.join(places.state_dir(), "ledger.db")
    try:
        ledger = GuardedLedger(path, _cost_function(), seconds)
    except sqlite3.Error as error:
        hint = None if os.path.exists(path) else "corral usage reads the logs and makes it"
        raise CorralError(f"the ledger {path} can't be asked: {error}", hint=hint) from error
    try:
        with _told(seconds):
            cursor = ledger.execute(query)
        if not cursor.description:
            raise CorralError("that asks for nothing: only SELECT can be run", exit_code=2)
        columns = tuple(_distinct([column[0] for column in cursor.description]))
        yield Answer(columns=columns, rows=_fetch(ledger, cursor, seconds))
    finally:
        ledger.close()


def _fetch(ledger: GuardedLedger, cursor: sqlite3.Cursor, seconds: float) -> Iterator[tuple[object, ...]]:
    while True:
        with _told(seconds):
            rows = ledger.fetch(cursor, _ROWS_AT_ONCE)
        if not rows:
            return
        yield from rows


@contextmanager
def _told(seconds: float) -> Generator[None]:
    """SQLite's complaints as messages for people."""
    try:
        yield
    except TimeUp:
        hint = "narrow it down, or allow more with --timeout"
        raise CorralError(f"the query took longer than {seconds:g} s", hint=hint) from None
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise CorralError(f"the query can't be run: {_say(str(error))}", hint=_hint(str(error)), exit_code=2) from error


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
