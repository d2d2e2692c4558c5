"""What a request cost: the rates that held when it was made, for a request of its size.

Every request is priced on its own: a tier depends on that request's input alone, cached or not, and crossing it
changes the rate of all its tokens. Where a source has no rate for cached input, it is input like any other; where it
has none for one-hour writes, they are writes like the others. Reasoning is output.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from corral.model.money import Cost
from corral.model.prices import ListedModel, ListedTier, ModelRates, OwnPrice, PriceTable, Rates, Vendor
from corral.model.usage import TokenUsage
from corral.usage.prices.match import find_listed
from corral.usage.prices.span import ALWAYS, Span, active_rates, active_stand


class Prices:
    """A price table and the person's own prices, asked by model and time. To ask again costs next to nothing."""

    def __init__(self, table: PriceTable, own: Mapping[str, OwnPrice] | None = None) -> None:
        self.table = table
        self._own = {name.lower(): price for name, price in (own or {}).items()}
        self._hidden = {name: hidden for hidden in table.hidden for name in hidden.names}
        self._found: dict[str, tuple[Vendor, ListedModel] | None] = {}
        self._last: dict[str, ModelRates] = {}

    def resolve(self, model: str | None, at: float) -> ModelRates | None:
        """The rates of a model at a time; they hold for the whole span that the answer names. None: unpriced."""
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
        if (hidden := self._hidden.get(name)) is not None:
            stand, span = active_stand(hidden.stands, at)
            return self._resolve_listed(model, stand, at, span, assumed=True) if stand else None
        return self._resolve_listed(model, name, at)

    def list_unknown(self) -> dict[str, str]:
        """The person's models, in lower case, that are priced as one that nobody lists; as which one."""
        return {
            name: own.priced_as
            for name, own in self._own.items()
            if own.tier is None and own.priced_as is not None and not self._lists(own.priced_as.strip().lower())
        }

    def _lists(self, name: str) -> bool:
        return name in self._hidden or self._find(name) is not None

    def _resolve_listed(
        self, model: str, name: str, at: float, within: Span = ALWAYS, *, assumed: bool = False
    ) -> ModelRates | None:
        found = self._find(name)
        if found is None:
            return None
        vendor, listed = found
        return self.rates_of(vendor, listed, at, model=model, within=within, assumed=assumed)

    def rates_of(
        self,
        vendor: Vendor,
        listed: ListedModel,
        at: float,
        *,
        model: str | None = None,
        within: Span = ALWAYS,
        assumed: bool = False,
    ) -> ModelRates | None:
        """The rates of one entry of the table at a time. None: tokens have no price there."""
        rates, span = active_rates(listed.prices, at)
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


def tier_for(rates: ModelRates, input_tokens: int) -> Rates:
    """The tier of a request by all its input: other, read from a cache, written to one."""
    for tier in reversed(rates.tiers):
        if input_tokens > tier.above:
            return tier
    return rates.tiers[0]


def count_picos(rates: ModelRates, tokens: TokenUsage) -> int:
    """What one request cost, in picodollars: an exact whole number. `corral.model.prices.PICOS` make a dollar."""
    size = tokens.input + tokens.cache_read + tokens.cache_write + tokens.cache_write_1h
    return multiply(rates.tiers[0] if len(rates.tiers) == 1 else tier_for(rates, size), tokens)


def multiply(rates: Rates, tokens: TokenUsage) -> int:
    """Tokens at one tier's rates, in picodollars. They may be a sum, if every request in it is of that tier."""
    return (
        rates.input * tokens.input
        + rates.cache_read * tokens.cache_read
        + rates.cache_write * tokens.cache_write
        + rates.cache_write_1h * tokens.cache_write_1h
        + rates.output * (tokens.output + tokens.reasoning)
    )


def price_event(rates: ModelRates | None, tokens: TokenUsage) -> Cost:
    """What one request cost, in dollars. `rates` are those of its model at its time; None: it has no price."""
    if rates is None:
        return Cost(unpriced_events=1)
    return make_cost(count_picos(rates, tokens), rates, events=1)


def make_cost(picos: int, rates: ModelRates, *, events: int) -> Cost:
    """A sum of picodollars, all at rates of the same origin, as money."""
    return Cost(
        amount=to_dollars(picos),
        assumed_events=events if rates.assumed else 0,
        sources=frozenset((describe_source(rates),)),
    )


def to_dollars(picos: int) -> Decimal:
    """Exact, whatever the size."""
    sign, digits = int(picos < 0), tuple(map(int, str(abs(picos))))
    return Decimal((sign, digits, -12)) if picos else Decimal(0)


def describe_source(rates: ModelRates) -> str:
    """Where a price comes from, with its day."""
    return f"{rates.source} ({rates.dated})" if rates.dated else rates.source
