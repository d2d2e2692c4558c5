"""Money: what events cost, how many of them have no price or an assumed one, and totals that add."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from msgspec import Struct


class Cost(Struct, frozen=True, kw_only=True):
    """Of one event or of many. `amount` is None while nothing of it has a price: unpriced is not free."""

    NOTHING: ClassVar[Cost]

    amount: Decimal | None = None
    currency: str = "USD"
    unpriced_events: int = 0
    assumed_events: int = 0
    """Events priced by a rule, because the model behind the name is hidden."""
    sources: frozenset[str] = frozenset()
    """Where the prices come from, each with its date."""

    def __add__(self, other: Cost) -> Cost:
        if self.currency != other.currency:
            raise ValueError(f"{self.currency} and {other.currency} do not add")
        if self.amount is None or other.amount is None:
            amount = other.amount if self.amount is None else self.amount
        else:
            amount = self.amount + other.amount
        return Cost(
            amount=amount,
            currency=self.currency,
            unpriced_events=self.unpriced_events + other.unpriced_events,
            assumed_events=self.assumed_events + other.assumed_events,
            sources=self.sources if self.sources == other.sources else self.sources | other.sources,
        )


Cost.NOTHING = Cost()


class Currency(Struct, frozen=True):
    """A currency and how much of it one US dollar is."""

    code: str = "USD"
    rate: Decimal = Decimal(1)

    def convert(self, cost: Cost) -> Cost:
        """A cost in dollars, in this currency."""
        if cost.currency != "USD":
            raise ValueError(f"{cost.currency} is not converted")
        if self.code == "USD":
            return cost
        return Cost(
            amount=None if cost.amount is None else cost.amount * self.rate,
            currency=self.code,
            unpriced_events=cost.unpriced_events,
            assumed_events=cost.assumed_events,
            sources=cost.sources,
        )
