"""What was spent of a budget."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct


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
