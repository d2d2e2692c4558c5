"""What a status line shows: sessions by state, and what was spent today. Fast, and never an exception."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import tzinfo
from decimal import Decimal
from typing import TypeVar

from msgspec import Struct

from corral.machine.local_zone import LocalZone
from corral.model.selection import NOTEWORTHY, Selection
from corral.model.usage import TokenUsage
from corral.model.usage_report import CostReport, LossRow, UsageQuery, UsageRow
from corral.model.verdict import Activity, State
from corral.providers.settings import read_settings
from corral.sessions.survey import take_survey
from corral.usage.answers import ask_ledger
from corral.usage.changes import update_ledger
from corral.usage.checks import is_damage
from corral.usage.ledger import Ledger
from corral.usage.query import find_begin
from corral.usage.report import find_currency, list_losses, list_rows

SCHEMA = 1
READING_S = 0.3
"""How long new log lines may be read before what is known is shown."""
_WAIT_MS = 200
"""How long to wait for another corral that is writing."""

_T = TypeVar("_T")


class SessionCounts(Struct, frozen=True, kw_only=True):
    """How many sessions are in which state."""

    waiting: int
    busy: int
    ready: int
    """Live, and ready for a prompt or not saying what they do."""
    lost: int
    unknown: int


class BudgetUse(Struct, frozen=True, kw_only=True):
    """How much of a configured budget is used."""

    per: str
    amount: Decimal
    used: Decimal
    over: bool


class TodayUse(Struct, frozen=True, kw_only=True):
    """What was recorded since local midnight."""

    requests: int
    tokens: int
    cost: CostReport
    complete: bool
    """False: not everything that was appended could be read in time, so that it is at least this."""
    budgets: tuple[BudgetUse, ...]
    losses: tuple[LossRow, ...]
    """What was counted once, could not be saved, and nobody has acknowledged."""


class Glance(Struct, frozen=True, kw_only=True):
    """`corral statusline --json`. A part is null when it can't be known; `problems` says why."""

    schema: int
    generated_at: float
    sessions: SessionCounts | None
    today: TodayUse | None
    config_problem: str | None
    """Why corral's own configuration is not in force."""
    problems: tuple[str, ...]


def take_glance() -> Glance:
    """Both parts, each for itself: one that fails does not hide the other."""
    problems: list[str] = []
    now = time.time()
    return Glance(
        schema=SCHEMA,
        generated_at=now,
        sessions=_attempt("sessions", _count_sessions, problems),
        today=_attempt("usage", lambda: ask_ledger(lambda ledger: _sum_today(ledger, now)), problems),
        config_problem=read_settings().problem,
        problems=tuple(problems),
    )


def _attempt(part: str, ask: Callable[[], _T], problems: list[str]) -> _T | None:
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - a prompt must not break; the reason is in `problems`
        problems.append(f"{part}: {error or type(error).__name__}")
        return None


def _count_sessions() -> SessionCounts:
    survey = take_survey(Selection(states=NOTEWORTHY))
    live = [session.activity for session in survey.sessions if session.state is State.LIVE]
    waiting, busy = live.count(Activity.WAITING), live.count(Activity.BUSY)
    return SessionCounts(
        waiting=waiting,
        busy=busy,
        ready=len(live) - waiting - busy,
        lost=survey.counts.get(State.ORPHANED, 0),
        unknown=survey.counts.get(State.UNKNOWN, 0),
    )


def _sum_today(ledger: Ledger, now: float) -> TodayUse:
    zone = LocalZone()
    budgeted = read_settings().budgets
    begins = {per: find_begin(per, now, zone) for per in ("day", *budgeted)}
    complete = _update(ledger, min(begins.values()))
    total = _sum(ledger, begins["day"], zone)
    budgets = [_use_budget(ledger, per, amount, begins[per], zone) for per, amount in budgeted.items()]
    return TodayUse(
        requests=total.events,
        tokens=total.tokens.total,
        cost=total.cost,
        complete=complete,
        budgets=tuple(budgets),
        losses=list_losses(ledger),
    )


def _sum(ledger: Ledger, since: float, zone: tzinfo) -> UsageRow:
    rows = list_rows(ledger, UsageQuery(by=(), since=since, zone=zone))
    return rows[0] if rows else UsageRow({}, 0, TokenUsage(), CostReport(None, find_currency(ledger)[0], 0, 0))


def _update(ledger: Ledger, since: float) -> bool:
    ledger.db.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
    try:
        return update_ledger(ledger, seconds=READING_S, since=since)
    except sqlite3.OperationalError as error:
        if is_damage(error):
            raise
        return False  # another corral is writing: what is there is shown, and said to be incomplete


def _use_budget(ledger: Ledger, per: str, amount: Decimal, since: float, zone: tzinfo) -> BudgetUse:
    used = _sum(ledger, since, zone).cost.amount or Decimal(0)
    return BudgetUse(per=per, amount=amount, used=used, over=used > amount)
