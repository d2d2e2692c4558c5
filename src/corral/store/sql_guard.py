"""A connection on which nothing but reading the documented views is possible, for a limited time."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from corral.store.checksums import COLUMNS, Damaged, is_damage
from corral.store.ledger import SCHEMA, find_schema
from corral.store.ledger_checks import Checks
from corral.store.private_file import read_only_uri
from corral.store.sql_views import list_views, read_definitions

_STEPS = 20_000
"""Between two looks at the clock; some milliseconds."""
_LONGEST_VALUE = 16 << 20
_UNSAFE_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})

CostFunction = Callable[..., float | None]
"""Model, time and the six kinds of tokens of a request: US dollars, or None."""


class TimeUp(Exception):
    """The query took longer than it may."""


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
        self._db.executescript(read_definitions())
        self._views = frozenset(view.name for view in list_views())
        self._db.execute("PRAGMA query_only = ON")
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        self._db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._db.set_authorizer(self._authorize)
        self._db.set_progress_handler(self._is_late, _STEPS)

    def execute(self, query: str) -> sqlite3.Cursor:
        """Raises sqlite3.Error for a bad query, Damaged where a table it reads is not as it was written, and TimeUp."""
        try:
            self._check(query)
            return self._db.execute(query)
        except sqlite3.OperationalError:
            self._raise_if_late()
            raise

    def fetch(self, cursor: sqlite3.Cursor, rows: int) -> list[tuple[object, ...]]:
        """The next rows, at most so many; none at the end. Raises as `execute` does."""
        try:
            return cursor.fetchmany(rows)
        except sqlite3.OperationalError:
            self._raise_if_late()
            raise

    def list_losses(self) -> list[tuple[float, str, int | None, float | None, float | None]]:
        """See `losses` in ledger.sql: those that nobody has acknowledged. Raises as `execute` does."""
        with self._asking():
            self._begin()
            self._checks.tables("losses")
            query = "SELECT noticed_at, what, rows, since, until FROM losses WHERE NOT acknowledged ORDER BY id"
            return self._db.execute(query).fetchall() if self._checks.enabled else []

    def _check(self, query: str) -> None:
        with suppress(sqlite3.Error, sqlite3.Warning, ValueError):  # a bad query is told when it is run
            self._db.execute(f"EXPLAIN {query}").close()
        with self._asking():
            self._begin()
            if self._checks.enabled:
                for table in sorted(self._tables & COLUMNS.keys()):
                    self._checks.tables(table)
                    # An index may miss what its table has.
                    for (problem,) in self._db.execute(f"PRAGMA integrity_check({table})"):
                        if problem != "ok":
                            raise Damaged(problem)

    def _begin(self) -> None:
        """What is checked is what is read."""
        if not self._db.in_transaction:
            self._db.execute("BEGIN")

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Whatever is wrong with our own questions is wrong with the file."""
        self._is_ours = True
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if is_damage(error):
                raise Damaged(str(error)) from error
            raise
        finally:
            self._is_ours = False

    def close(self) -> None:
        self._db.close()

    def _raise_if_late(self) -> None:
        if self._is_late():
            raise TimeUp

    def _is_late(self) -> bool:
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
