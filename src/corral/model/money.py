"""Currencies: money is worked out in US dollars and shown in another currency by its rate."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct


class Currency(Struct, frozen=True):
    """A currency and how much of it one US dollar is."""

    code: str = "USD"
    rate: Decimal = Decimal(1)
