"""Which of a model's prices holds at a time, and from when until when that answer stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from corral.model.prices import ListedRates, Stand

_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()


class Span(NamedTuple):
    """From `since` until before `until`, in epoch seconds."""

    since: float
    until: float


ALWAYS = Span(float("-inf"), float("inf"))


def active_rates(prices: Sequence[ListedRates], at: float) -> tuple[ListedRates, Span]:
    """The last price that holds, else the first, and a span around `at` in which nothing changes."""
    span = ALWAYS
    chosen = prices[0]
    for rates in prices:
        span = _narrow(span, rates, at)
        if _holds(rates, at):
            chosen = rates
    return chosen, span


def active_stand(stands: Sequence[Stand], at: float) -> tuple[str | None, Span]:
    """The model that stands for a hidden one, and for how long. None before the first stand."""
    span, chosen = ALWAYS, None
    for stand in stands:
        begins = to_epoch(stand.since)
        if begins <= at:
            span, chosen = Span(begins, ALWAYS.until), stand.model
        else:
            return chosen, Span(span.since, begins)
    return chosen, span


def to_epoch(day: str) -> int:
    """The first second of a day, UTC."""
    return (date.fromisoformat(day).toordinal() - _EPOCH) * _DAY


def _holds(rates: ListedRates, at: float) -> bool:
    if rates.since is not None:
        return at >= to_epoch(rates.since)
    if rates.daily is not None:
        begins, ends = rates.daily
        second = at % _DAY
        return begins <= second < ends if begins <= ends else second >= begins or second < ends
    return True


def _narrow(span: Span, rates: ListedRates, at: float) -> Span:
    edges: list[float] = []
    if rates.since is not None:
        edges.append(to_epoch(rates.since))
    if rates.daily is not None:
        midnight = at - at % _DAY
        edges += [midnight + offset + day * _DAY for day in (-1, 0, 1) for offset in rates.daily]
    since, until = span
    for edge in edges:
        if edge <= at:
            since = max(since, edge)
        else:
            until = min(until, edge)
    return Span(since, until)
