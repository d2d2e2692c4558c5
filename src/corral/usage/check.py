"""Recounting from the logs what the ledger says: every row is checked, and every request compared."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from corral.machine import places
from corral.model.usage_report import LossRow
from corral.usage.answers import naming_trouble
from corral.usage.changes import update_ledger
from corral.usage.checks import SEALED, Checks, Damaged, check_derived, is_damage, is_right, select_rows
from corral.usage.ledger import Known, Ledger
from corral.usage.read import OnProgress
from corral.usage.report import list_losses
from corral.usage.rows import STAND_IN, Row
from corral.usage.scan import scan_homes

SCHEMA = 1
_COMPARED = {
    "events": (
        "at, input, cache_read, cache_write, cache_write_1h, output, reasoning, rank, session_id, model, model_source,"
        " dollars, picos"
    ),
    "actions": "at, kind, name, rank, session_id",
    "unrecorded": "at, kind, rank, session_id",
}
_NAMES = {"events": "request", "actions": "turn or call of a tool", "unrecorded": "call without tokens"}
_MOST = 1_000


class Difference(Struct, frozen=True, kw_only=True):
    """Something that the logs say otherwise than the ledger."""

    what: str
    """request, turn or call of a tool, call without tokens."""
    at: float
    session: str
    """As provider:id."""
    problem: str


class UsageCheck(Struct, frozen=True, kw_only=True):
    """`corral usage --check --json`."""

    schema: int
    compared: int = 0
    """Requests, turns, calls of tools and calls without tokens that the logs have."""
    only_in_ledger: int = 0
    """The same, of which there is no log any more."""
    damaged: tuple[str, ...] = ()
    """Tables that are not as they were written."""
    differences: tuple[Difference, ...] = ()
    more_differences: int = 0
    """Beyond those that are listed."""
    losses: tuple[LossRow, ...] = ()
    notice: str | None = None

    @property
    def is_right(self) -> bool:
        return not self.damaged and not self.differences


def check_usage(on_progress: OnProgress | None) -> UsageCheck:
    """Read all logs into a second ledger, in memory, and compare. Raises CorralError where there can be no ledger.

    A ledger in order is brought up to date first, and else left as it is: whoever asks wants to see what is wrong.
    """
    with naming_trouble():
        try:
            ledger = Ledger(places.state_dir(), aside=True)
        except Damaged as damaged:
            return UsageCheck(schema=SCHEMA, damaged=(str(damaged),))
        try:
            return _check(ledger, on_progress)
        finally:
            ledger.close()


def _check(ledger: Ledger, on_progress: OnProgress | None) -> UsageCheck:
    damaged = () if ledger.is_new else tuple(_list_damaged(ledger))
    if not damaged:
        try:
            update_ledger(ledger, on_progress)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            damaged = (str(error),)
    counted = Ledger(places.state_dir(), again=True, unwritable="only to compare")
    found: list[Difference] = []
    compared = only = 0
    try:
        with ledger.reading():
            counted.known = _list_known(ledger)
            scan_homes(counted, on_progress)
            for table in _COMPARED:
                logged = _read_rows(counted.db, table)
                compared += len(logged)
                with _passing_over_damage():  # the table is among the damaged then
                    kept = _read_rows(ledger.db, table)
                    found += _compare(table, kept, logged, counted.known)
                    only += len(kept.keys() - logged.keys())
            losses = () if "losses" in damaged else list_losses(ledger)
    finally:
        counted.close()
    found.sort(key=lambda one: (one.at, one.session))
    return UsageCheck(
        schema=SCHEMA,
        compared=compared,
        only_in_ledger=only,
        damaged=damaged,
        differences=tuple(found[:_MOST]),
        more_differences=max(0, len(found) - _MOST),
        losses=losses,
        notice=ledger.notice,
    )


def _list_damaged(ledger: Ledger) -> Iterator[str]:
    checks = Checks(ledger.db, enabled=not ledger.read_only)
    parts: dict[str, Callable[[], None]] = {name: lambda name=name: checks.tables(name) for name in SEALED}
    parts["sums"] = lambda: _check_sums(ledger, checks)
    for name, check in parts.items():
        try:
            check()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if not is_damage(error):
                raise
            yield name
    try:
        problems = [problem for (problem,) in ledger.db.execute("PRAGMA integrity_check(1)") if problem != "ok"]
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    yield from problems


def _check_sums(ledger: Ledger, checks: Checks) -> None:
    checks.sums()
    if checks.enabled:
        check_derived(ledger.db)


def _list_known(ledger: Ledger) -> Known:
    """What it knows, as far as that is as it was written: how a log counts depends on it."""
    homes = {row[0]: (row[1], row[2]) for row in _read_right(ledger.db, "homes")}
    places: dict[str, set[str]] = {}
    for provider, path in homes.values():
        places.setdefault(provider, set()).add(path)
    read: dict[str, set[str]] = {}
    for _, home, _, session_id, _, has_log, _ in _read_right(ledger.db, "sessions"):
        if has_log and home in homes:
            read.setdefault(homes[home][0], set()).add(session_id)
    sources = _read_right(ledger.db, "sources")
    return Known(places, {row[1]: row[-2] for row in sources if row[-2] is not None}, read)


def _read_right(db: sqlite3.Connection, table: str) -> list[Row]:
    """Rows that are right, up to the first page that can't be read."""
    found: list[Row] = []
    with _passing_over_damage():
        found += filter(is_right, db.execute(f"{select_rows(table)} NOT INDEXED"))
    return found


@contextmanager
def _passing_over_damage() -> Generator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise


def _read_rows(db: sqlite3.Connection, table: str) -> dict[int, dict[str, Any]]:
    columns = _COMPARED[table]
    rows = db.execute(
        f"SELECT key, provider, {columns} FROM {table} NOT INDEXED CROSS JOIN sessions NOT INDEXED"
        " ON sessions.id = session CROSS JOIN homes NOT INDEXED ON homes.id = home"
    )
    names = ["key", "provider", *columns.split(", ")]
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def _compare(
    table: str, kept: dict[int, dict[str, Any]], counted: dict[int, dict[str, Any]], known: Known
) -> Iterator[Difference]:
    for key, logged in counted.items():
        if logged["rank"] >= STAND_IN and logged["session_id"] in known.read.get(logged["provider"], ()):
            continue  # it stands in for a log that is gone now, and that the ledger has read
        if problem := _find_problem(kept.get(key), logged):
            session = f"{logged['provider']}:{logged['session_id']}"
            yield Difference(what=_NAMES[table], at=logged["at"], session=session, problem=problem)


def _find_problem(kept: dict[str, Any] | None, logged: dict[str, Any]) -> str | None:
    """What a log says otherwise. The ledger may know more than logs that exist: an earlier copy, a surer owner."""
    if kept is None:
        return "the ledger does not have it"
    for name, value in logged.items():
        mine = kept[name]
        match name:
            case "at":
                differs = not isinstance(mine, float | int) or mine > value
            case "rank" | "session_id":
                differs = name == "session_id" and kept["rank"] == logged["rank"] and mine != value
            case "model" | "model_source":
                differs = logged.get("model_source") == "recorded" and mine != value
            case "dollars" | "picos":  # one model at one time has one price
                same = all(kept[what] == logged[what] for what in ("at", "model", "model_source"))
                differs = same and mine != value
            case _:
                differs = mine != value
        if differs:
            return f"{name} is {mine} in the ledger and {value} in the log"
    return None
