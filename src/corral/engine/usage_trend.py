"""How each row of a report ran over its last days, for sparklines."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from corral.engine.usage_labels import TIME_KEYS
from corral.engine.usage_report import UsageQuery, report_usage
from corral.store.ledger import Ledger

DAYS = 14

Trend = dict[tuple[str | None, ...], tuple[Decimal, ...]]
"""By the row's key: one figure per day, the oldest first."""


def find_trend(ledger: Ledger, query: UsageQuery, now: float) -> Trend | None:
    """Money per day and row, or tokens where nothing has a price. None where the rows are times themselves."""
    if any(name in (*TIME_KEYS, "tool") for name in query.by):
        return None
    last = datetime.fromtimestamp(min(now, query.until or now), query.zone)
    days = [(last.date() - timedelta(days=back)) for back in reversed(range(DAYS))]
    first = datetime(days[0].year, days[0].month, days[0].day, tzinfo=query.zone).timestamp()
    since = first if query.since is None else max(first, query.since)
    daily = report_usage(ledger, query._replace(by=(*query.by, "day"), since=since))
    names = {day.isoformat(): position for position, day in enumerate(days)}
    priced = daily.total.cost.amount is not None
    found: dict[tuple[str | None, ...], list[Decimal]] = {}
    for row in daily.rows:
        position = names.get(row.key["day"] or "")
        if position is not None:
            figures = found.setdefault(tuple(row.key[name] for name in query.by), [Decimal(0)] * DAYS)
            figures[position] += (row.cost.amount or Decimal(0)) if priced else row.tokens.total
    return {key: tuple(figures) for key, figures in found.items()}
