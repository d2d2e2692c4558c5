"""What was recorded since a local midnight: where days, weeks and months begin, and what each session cost today."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, tzinfo

from corral.engine.account import Tell, update_ledger
from corral.engine.ledger_access import ask_ledger
from corral.engine.usage_losses import list_losses
from corral.engine.usage_report import UsageQuery, UsageRow, list_rows
from corral.engine.usage_types import LossRow
from corral.light_typing import NamedTuple
from corral.store.ledger import Ledger
from corral.system.local_zone import LocalZone


class SpentToday(NamedTuple):
    """What sessions used since midnight."""

    sessions: dict[str, UsageRow]
    """By name (`provider:id`); those that used nothing are not there."""
    losses: tuple[LossRow, ...]
    """What may be missing from it."""


def sum_sessions_today(tell: Tell | None) -> SpentToday:
    """Reads all that is new."""
    zone = LocalZone()

    def ask(ledger: Ledger) -> SpentToday:
        update_ledger(ledger, tell)
        midnight = find_begin("day", time.time(), zone)
        rows = list_rows(ledger, UsageQuery(by=("session",), since=midnight, zone=zone))
        return SpentToday({row.key["session"] or "": row for row in rows}, list_losses(ledger))

    return ask_ledger(ask, or_memory=True)


def find_begin(per: str, now: float, zone: tzinfo) -> float:
    """The local midnight at which the day, the week (Monday) or the month began."""
    day = datetime.fromtimestamp(now, zone).date()
    if per == "week":
        day -= timedelta(days=day.weekday())
    elif per == "month":
        day = day.replace(day=1)
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
