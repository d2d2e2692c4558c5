"""What a request cost: the rates that held when it was made, for a request of its size. Pure functions of a table.

Every request is priced on its own: a tier depends on that request's input alone, cached or not, and crossing it
changes the rate of all its tokens. Where a source has no rate for cached input, it is input like any other; where it
has none for one-hour writes, they are writes like the others. Reasoning is output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import chain
from typing import NamedTuple

from corral.model.prices import (
    ListedModel,
    ListedRates,
    ListedTier,
    Match,
    ModelRates,
    OwnPrice,
    PriceTable,
    Rates,
    Stand,
    Vendor,
)
from corral.model.usage import TokenUsage


class Prices:
    """A price table and the person's own prices, by model and time. Asking again costs next to nothing."""

    def __init__(self, table: PriceTable, own: Mapping[str, OwnPrice] | None = None) -> None:
        self.table = table
        self._own = {name.lower(): price for name, price in (own or {}).items()}
        self._hidden = {name: hidden for hidden in table.hidden for name in hidden.names}
        self._found: dict[str, tuple[Vendor, ListedModel] | None] = {}
        self._last: dict[str, ModelRates] = {}

    def resolve(self, model: str | None, at: float) -> ModelRates | None:
        """The rates of a model at a time; they hold for the whole span that the answer names. None: no known price."""
        if model is None:
            return None
        last = self._last.get(model)
        if last is not None and last.since <= at < last.until:
            return last
        rates = self._resolve(model, at)
        if rates is not None:
            self._last[model] = rates
        return rates

    def _resolve(self, model: str, at: float) -> ModelRates | None:
        name = model.strip().lower()
        own = self._own.get(name) or self._own.get(name.partition("/")[2])
        if own is not None and own.tier is not None:
            return ModelRates(
                model=model,
                listed_as=name,
                vendor="",
                tiers=(complete(own.tier),),
                since=ALWAYS.since,
                until=ALWAYS.until,
                source="own price",
                dated="",
            )
        if own is not None and own.priced_as is not None:
            name = own.priced_as.strip().lower()
        hidden, span = self._hidden.get(name), ALWAYS
        if hidden is not None:
            name, span = active_stand(hidden.stands, at)
        found = None if name is None else self._find(name)
        return self.rates_of(*found, at, model=model, within=span, assumed=hidden is not None) if found else None

    def rates_of(
        self,
        vendor: Vendor,
        listed: ListedModel,
        at: float,
        *,
        model: str | None = None,
        within: Span | None = None,
        assumed: bool = False,
    ) -> ModelRates | None:
        """The rates of one entry of the table at a time. None: its tokens have no price."""
        rates, span = active_rates(listed.prices, at)
        within = within or ALWAYS
        if not rates.tiers:
            return None
        return ModelRates(
            model=model or listed.id,
            listed_as=listed.id,
            vendor=vendor.id,
            tiers=tuple(map(complete, rates.tiers)),
            since=max(span.since, within.since),
            until=min(span.until, within.until),
            source=listed.source or self.table.source,
            dated=listed.dated or self.table.dated,
            assumed=assumed,
        )

    def list_unknown(self) -> dict[str, str]:
        """The person's models, in lower case, that are priced as one that nobody lists; as which one."""
        found = {name: own.priced_as for name, own in self._own.items() if own.tier is None}
        return {name: one for name, one in found.items() if one is not None and not self._lists(one.strip().lower())}

    def _lists(self, name: str) -> bool:
        return name in self._hidden or self._find(name) is not None

    def _find(self, name: str) -> tuple[Vendor, ListedModel] | None:
        if name not in self._found:
            self._found[name] = find_listed(self.table.vendors, name)
        return self._found[name]


def complete(tier: ListedTier) -> Rates:
    """Rates without gaps: what has no rate of its own costs what it is a kind of."""
    write = tier.input if tier.cache_write is None else tier.cache_write
    return Rates(
        tier.above,
        tier.input,
        tier.input if tier.cache_read is None else tier.cache_read,
        write,
        write if tier.cache_write_1h is None else tier.cache_write_1h,
        tier.output,
    )


def tier_for(rates: ModelRates, tokens: TokenUsage) -> Rates:
    """The tier of a request by all its input: plain, read from a cache, written to one."""
    size = tokens.input + tokens.cache_read + tokens.cache_write + tokens.cache_write_1h
    return next((tier for tier in reversed(rates.tiers) if size > tier.above), rates.tiers[0])


def count_picos(rates: ModelRates, tokens: TokenUsage) -> int:
    """What one request cost, in picodollars: an exact whole number. `corral.model.prices.PICOS` make a dollar."""
    return multiply(rates.tiers[0] if len(rates.tiers) == 1 else tier_for(rates, tokens), tokens)


def multiply(rates: Rates, tokens: TokenUsage) -> int:
    """Tokens at one tier's rates, in picodollars. They may be a sum if every request in it is of that tier."""
    return (
        rates.input * tokens.input
        + rates.cache_read * tokens.cache_read
        + rates.cache_write * tokens.cache_write
        + rates.cache_write_1h * tokens.cache_write_1h
        + rates.output * (tokens.output + tokens.reasoning)
    )


# --- which entry of the table a model's name means

_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")


def find_listed(vendors: Sequence[Vendor], name: str) -> tuple[Vendor, ListedModel] | None:
    """The vendor and the model; None if nobody lists it.

    A bare name belongs to the first vendor that claims and lists it. `vendor/model` is looked up with that vendor; a
    reseller (`reseller/vendor/model`) has prices of its own, which the table does not know.
    """
    name = name.strip().lower()
    before, _, bare = name.partition("/")
    claiming = ((one, name) for one in vendors if one.match is not None and matches(one.match, name))
    named = ((one, bare) for one in vendors if bare and before in one.prefixes)
    for vendor, spelling in chain(claiming, named):
        if (listed := _find_model(vendor, spelling)) is not None:
            return vendor, listed
    return None


def matches(match: Match, name: str) -> bool:
    """Whether a name, in lower case, is meant."""
    return (
        name in match.equals
        or name.startswith(match.prefixes)
        or name.endswith(match.suffixes)
        or any(part in name for part in match.contains)
        or any(re.search(pattern, name) for pattern in match.patterns)
        or any(all(matches(each, name) for each in group) for group in match.together)
    )


def _find_model(vendor: Vendor, name: str) -> ListedModel | None:
    """By the name as it is; failing that, with a date such as -20251211 written -2025-12-11."""
    for spelling in (name, _COMPACT_DATE.sub(r"-\1-\2-\3", name)):
        for listed in vendor.models:
            if matches(listed.match, spelling):
                return listed
    return None


# --- which of a model's prices holds at a time, and for how long

_DAY_S = 86_400
_EPOCH = date(1970, 1, 1).toordinal()


class Span(NamedTuple):
    """From `since` until before `until`, in epoch seconds."""

    since: float
    until: float


ALWAYS = Span(float("-inf"), float("inf"))


def active_rates(prices: Sequence[ListedRates], at: float) -> tuple[ListedRates, Span]:
    """The last price that holds, else the first, and a span around `at` in which nothing changes."""
    since, until = ALWAYS
    chosen = prices[0]
    for rates in prices:
        for edge in _list_edges(rates, at):
            since, until = (max(since, edge), until) if edge <= at else (since, min(until, edge))
        if _holds(rates, at):
            chosen = rates
    return chosen, Span(since, until)


def active_stand(stands: Sequence[Stand], at: float) -> tuple[str | None, Span]:
    """The model that stands for a hidden one, and for how long. None before the first one."""
    span, chosen = ALWAYS, None
    for stand in stands:
        begins = _to_epoch(stand.since)
        if begins > at:
            return chosen, Span(span.since, begins)
        span, chosen = Span(begins, ALWAYS.until), stand.model
    return chosen, span


def _to_epoch(day: str) -> int:
    """The first second of a day, UTC."""
    return (date.fromisoformat(day).toordinal() - _EPOCH) * _DAY_S


def _holds(rates: ListedRates, at: float) -> bool:
    if rates.since is not None:
        return at >= _to_epoch(rates.since)
    if rates.daily is not None:
        begins, ends = rates.daily
        second = at % _DAY_S
        return begins <= second < ends if begins <= ends else second >= begins or second < ends
    return True


def _list_edges(rates: ListedRates, at: float) -> list[float]:
    """When a price begins or ends to hold, around `at`."""
    midnight = at - at % _DAY_S
    edges = [midnight + offset + day * _DAY_S for day in (-1, 0, 1) for offset in rates.daily or ()]
    return edges if rates.since is None else [*edges, _to_epoch(rates.since)]
