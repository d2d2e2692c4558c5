"""What a token costs: rates by model, date, hour and size of the request, and who says so.

Rates are integers: millionths of a millionth of a dollar (picodollars) for one token, which is the same number as
millionths of a dollar for a million tokens. Every published rate is a whole number of them, so sums are exact.
"""

from __future__ import annotations

from msgspec import Struct, field

PICOS = 10**12
"""Picodollars in a dollar."""


class Match(Struct, frozen=True, omit_defaults=True):
    """Which names are meant: one rule that holds is enough. Names are compared in lower case."""

    equals: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    together: tuple[tuple[Match, ...], ...] = ()
    """Groups in which every rule must hold."""


class ListedTier(Struct, frozen=True, array_like=True):
    """Rates as published, for requests with more than `above` tokens of input; None where none is published."""

    above: int
    input: int
    cache_read: int | None
    cache_write: int | None
    cache_write_1h: int | None
    output: int


class ListedRates(Struct, frozen=True, omit_defaults=True):
    """What a model costs from a day on (UTC), or daily between two times (UTC); always, if neither is given."""

    tiers: tuple[ListedTier, ...]
    """The first holds for every size that no later one covers. Empty: no price for tokens is known."""
    since: str | None = None
    daily: tuple[int, int] | None = None
    """Seconds after midnight, UTC; the end may be smaller than the beginning."""


class ListedModel(Struct, frozen=True, omit_defaults=True):
    """One model with all its prices. Of several that hold, the last counts; if none holds, the first."""

    id: str
    match: Match
    prices: tuple[ListedRates, ...]
    source: str | None = None
    """Who says so, where it is not the source of the whole table."""
    dated: str | None = None


class Vendor(Struct, frozen=True, omit_defaults=True):
    """Who sells models under their own names."""

    id: str
    models: tuple[ListedModel, ...]
    match: Match | None = None
    """Bare model names that are this vendor's."""
    prefixes: tuple[str, ...] = ()
    """What comes before the slash in `vendor/model` when this vendor is meant."""


class Stand(Struct, frozen=True):
    """From a day on (UTC), the model as which a hidden one is priced."""

    since: str
    model: str


class HiddenModel(Struct, frozen=True):
    """Names behind which the vendor puts one model after another; their price is an assumption."""

    names: tuple[str, ...]
    stands: tuple[Stand, ...]
    source: str


class PriceTable(Struct, frozen=True):
    """All that is known about prices, from one source and one day."""

    schema: int
    source: str
    dated: str
    vendors: tuple[Vendor, ...]
    hidden: tuple[HiddenModel, ...] = ()


class OwnPrice(Struct, frozen=True, kw_only=True):
    """What the person says a model costs: rates, or another model's name."""

    tier: ListedTier | None = None
    priced_as: str | None = None


class Rates(Struct, frozen=True):
    """Picodollars per token for requests with more than `above` tokens of input; nothing is left open."""

    above: int
    input: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    output: int


class ModelRates(Struct, frozen=True, kw_only=True):
    """What one model costs from `since` until before `until` (epoch seconds), by size of the request."""

    model: str
    """As asked for."""
    listed_as: str
    """As the source calls it."""
    vendor: str
    tiers: tuple[Rates, ...] = field(default=())
    """By rising size; the first has no lower bound."""
    since: float
    until: float
    source: str
    dated: str
    """The day of which the source is; empty for the person's own prices."""
    assumed: bool = False

    @property
    def origin(self) -> str:
        """Where the price comes from, with its day."""
        return f"{self.source} ({self.dated})" if self.dated else self.source
