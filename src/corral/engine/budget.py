"""Whether what was spent is within a budget: surely over, or at least so much when some requests have no price."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from corral.engine.usage_labels import TIME_KEYS

if TYPE_CHECKING:
    from corral.engine.usage_report import CostReport, UsageReport


class BudgetPeriod(Struct, frozen=True, kw_only=True):
    """What was spent in one period."""

    key: str | None
    """The day, week, month or hour; null for the whole time that was asked about."""
    used: Decimal
    """Of what has a price."""
    at_least: bool
    """Some requests have no price: more may have been spent."""
    over: bool
    """Surely over: what has a price is already more than the budget."""


class BudgetReport(Struct, frozen=True, kw_only=True):
    """`budget` of `corral usage --budget AMOUNT --json`."""

    amount: Decimal
    currency: str
    per: str | None
    """day, week, month or hour; null for the whole time that was asked about."""
    over: bool
    at_least: bool
    periods: tuple[BudgetPeriod, ...]


def check_budget(report: UsageReport, by: Sequence[str], amount: Decimal) -> BudgetReport:
    """The budget is per period where rows are that alone, else for all that was asked about."""
    per = by[0] if len(by) == 1 and by[0] in TIME_KEYS else None
    if per is None:
        periods = (_check(None, report.total.cost, amount),)
    else:
        periods = tuple(_check(row.key[per], row.cost, amount) for row in report.rows)
    return BudgetReport(
        amount=amount,
        currency=report.total.cost.currency,
        per=per,
        over=any(period.over for period in periods),
        at_least=any(period.at_least for period in periods),
        periods=periods,
    )


def _check(key: str | None, cost: CostReport, amount: Decimal) -> BudgetPeriod:
    used = cost.amount or Decimal(0)
    return BudgetPeriod(key=key, used=used, at_least=cost.unpriced_events > 0, over=used > amount)
