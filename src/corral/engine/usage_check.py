"""Recounting from the logs what the ledger says: every row is checked, and every request compared."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from corral.engine.account import Tell, update_ledger
from corral.engine.scan import scan_homes
from corral.engine.usage_losses import list_losses
from corral.engine.usage_types import LossRow
from corral.store.checksums import COLUMNS, is_damage, is_right, select_rows
from corral.store.ledger import Known, Ledger
from corral.store.ledger_checks import Checks
from corral.system import places

SCHEMA = 1
_COUNTED = {
    "events": (
        "at, input, cache_read, cache_write, cache_write_1h, output, reasoning, rank, session_id, model, model_source"
    ),
    "deeds": "at, kind, name, rank, session_id",
    "unrecorded": "at, kind, rank, session_id",
}
_NAMES = {"events": "request", "deeds": "turn or call of a tool", "unrecorded": "call without tokens"}
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
    compared: int
    """Requests, turns, calls of tools and calls without tokens that the logs have."""
    only_in_ledger: int
    """The same, of which no log tells any more."""
    damaged: tuple[str, ...]
    """Tables that are not as they were written."""
    differences: tuple[Difference, ...]
    more_differences: int
    """Beyond those that are listed."""
    losses: tuple[LossRow, ...]
    notice: str | None

    @property
    def is_right(self) -> bool:
        return not self.damaged and not self.differences


def check_usage(ledger: Ledger, tell: Tell | None) -> UsageCheck:
    """Read all logs into a second ledger, in memory, and compare.

    A ledger in order is brought up to date first, and else left as it is: whoever asks wants to see what is wrong.
    """
    damaged = () if ledger.is_new else tuple(_list_damaged(ledger))
    if not damaged:
        update_ledger(ledger, tell)
    counted = Ledger(places.state_dir(), again=True, unwritable="only to compare")
    try:
        with ledger.reading():
            counted.known = _list_known(ledger)
            scan_homes(counted, tell, None)
            found = list(_compare(ledger.db, counted.db))
            compared = sum(_count(counted.db, table) for table in _COUNTED)
            only = sum(len(_keys(ledger.db, table) - _keys(counted.db, table)) for table in _COUNTED)
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
    parts: dict[str, Callable[[], None]] = {
        name: lambda name=name: checks.tables(name) for name in COLUMNS if name not in ("memo", "seals")
    }
    parts["sums"] = checks.sums
    for name, check in parts.items():
        try:
            check()
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            yield name
    try:
        problems = [problem for (problem,) in ledger.db.execute("PRAGMA integrity_check(1)") if problem != "ok"]
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    yield from problems


def _list_known(ledger: Ledger) -> Known:
    """What it was told, as far as that is as it was written: how a log counts depends on it."""
    homes: dict[str, list[str]] = {}
    for provider, path in ledger.db.execute("SELECT provider, path FROM homes ORDER BY 1, 2"):
        homes.setdefault(provider, []).append(path)
    rows = filter(is_right, ledger.db.execute(select_rows("sources")))
    read: dict[str, set[str]] = {}
    sessions = "SELECT provider, session_id FROM sessions JOIN homes ON homes.id = home WHERE has_log"
    for provider, session_id in ledger.db.execute(sessions):
        read.setdefault(provider, set()).add(session_id)
    return Known(homes, {row[1]: row[-2] for row in rows if row[-2] is not None}, read)


def _compare(kept: sqlite3.Connection, counted: sqlite3.Connection) -> Iterator[Difference]:
    for table, columns in _COUNTED.items():
        query = (
            f"SELECT key, provider, {columns} FROM {table} JOIN sessions ON sessions.id = session"
            " JOIN homes ON homes.id = home"
        )
        names = ["key", "provider", *columns.split(", ")]
        known = {row[0]: dict(zip(names, row, strict=True)) for row in kept.execute(query)}
        for row in counted.execute(query):
            logged = dict(zip(names, row, strict=True))
            if problem := _find_problem(known.get(row[0]), logged):
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
            case _:
                differs = mine != value
        if differs:
            return f"{name} is {mine} in the ledger and {value} in the log"
    return None


def _count(db: sqlite3.Connection, table: str) -> int:
    return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def _keys(db: sqlite3.Connection, table: str) -> set[int]:
    return {key for (key,) in db.execute(f"SELECT key FROM {table}")}
