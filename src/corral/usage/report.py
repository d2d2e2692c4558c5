"""What the ledger says, grouped as asked: events added up, each priced on its own, what is missing said beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast

from corral.model.usage_report import (
    TIME_KEYS,
    CostReport,
    PriceOrigin,
    TokenSums,
    UnrecordedRow,
    UsageQuery,
    UsageReport,
    UsageRow,
)
from corral.usage.changes import find_currency, find_unknown_prices
from corral.usage.deferred import say_deferred, sum_deferred
from corral.usage.gaps import (
    list_concerned,
    list_losses,
    list_skips,
    list_unrecorded,
    say_loss,
    say_vague,
    where_clause,
)
from corral.usage.groups import NOT_OF_TURNS, SUMMED, Sums, add_up, list_models
from corral.usage.ledger import Ledger

SCHEMA = 1
_PICOS = 10**12


def report_usage(ledger: Ledger, query: UsageQuery) -> UsageReport:
    """Group what is stored. Nothing is read from a provider here.

    Whatever is used is checked first. Raises Damaged where it is not as it was written.
    """
    with ledger.reading():
        return _report(ledger, query)


def list_rows(ledger: Ledger, query: UsageQuery) -> tuple[UsageRow, ...]:
    """The rows of such a report alone: what is missing from them is not asked for."""
    code, rate = find_currency(ledger)
    with ledger.reading():
        groups = add_up(ledger, query)
    turns_known = query.model is None and NOT_OF_TURNS.isdisjoint(query.by)
    return tuple(
        _row(dict(zip(query.by, key, strict=True)), sums, rate, code, turns_known) for key, sums in _order(groups)
    )


def _order(groups: Sums) -> list[tuple[tuple[str | None, ...], list[int]]]:
    return sorted(groups.items(), key=lambda item: tuple(part or "" for part in item[0]))


def _report(ledger: Ledger, query: UsageQuery) -> UsageReport:
    code, rate = find_currency(ledger)
    by_tool = query.by == ("tool",)
    turns_known = query.model is None and NOT_OF_TURNS.isdisjoint(query.by) and not by_tool
    groups = add_up(ledger, query._replace(by=()) if by_tool else query)
    total = [sum(column) for column in zip(*groups.values(), strict=True)] or [0] * len(SUMMED)
    if not turns_known and query.model is None and not by_tool:
        total[0] = sum(sums[0] for sums in add_up(ledger, query._replace(by=())).values())
    rows = (
        _count_tools(ledger, query)
        if by_tool
        else (
            _row(dict(zip(query.by, key, strict=True)), sums, rate, code, turns_known) for key, sums in _order(groups)
        )
    )
    skipped, vague = list_skips(ledger, query)
    unrecorded = list_unrecorded(ledger, query)
    unread = sum_deferred(ledger)
    return UsageReport(
        schema=SCHEMA,
        rows=tuple(rows),
        total=_row({}, total, rate, code, query.model is None and not by_tool),
        unrecorded=tuple(unrecorded),
        skipped=tuple(skipped),
        notice=ledger.notice,
        prices=tuple(_list_origins(ledger, query)),
        notes=(
            *map(say_loss, losses := list_losses(ledger)),
            *say_vague(query, unrecorded, vague),
            *_say_unknown_prices(ledger, query),
            *([say_deferred(unread, query)] if unread else ()),
        ),
        losses=losses,
        unread=unread,
    )


def _list_origins(ledger: Ledger, query: UsageQuery) -> Iterator[PriceOrigin]:
    narrowed = any(value is not None for value in query[query._fields.index("since") :])
    models = list_models(ledger, query) if narrowed else None
    ledger.checks.tables("prices")
    query_all = "SELECT model, listed_as, source, dated, assumed FROM prices ORDER BY model, listed_as, source, dated"
    for *origin, dated, assumed in ledger.db.execute(query_all):
        if models is None or origin[0] in models:
            yield PriceOrigin(*origin, dated=dated or None, assumed=bool(assumed))


def _say_unknown_prices(ledger: Ledger, query: UsageQuery) -> Iterator[str]:
    unknown = find_unknown_prices(ledger)
    for model in sorted(list_models(ledger, query)) if unknown else ():
        name = model.strip().lower()
        if listed := unknown.get(name) or unknown.get(name.partition("/")[2]):
            yield f"the configuration prices {model!r} as {listed!r}, and no listed model has that name"


def _row(key: dict[str, str | None], sums: Sequence[int], rate: Decimal, currency: str, turns_known: bool) -> UsageRow:
    turns, events, dollars, picos, unpriced, assumed = *sums[:2], *sums[8:]
    amount = Decimal(dollars * _PICOS + picos) / _PICOS * rate if events > unpriced else None
    return UsageRow(
        key=key,
        events=events,
        tokens=TokenSums(*sums[2:8]),
        cost=CostReport(amount=amount, currency=currency, unpriced_events=unpriced, assumed_events=assumed),
        turns=turns if turns_known else None,
    )


def _count_tools(ledger: Ledger, query: UsageQuery) -> Iterator[UsageRow]:
    ledger.checks.tables("actions", "sessions", "homes")
    where, values = where_clause(query, "actions")
    where += " AND kind = 'tool'" if where else " WHERE kind = 'tool'"
    rows = ledger.db.execute(
        "SELECT name, count(*) FROM actions NOT INDEXED CROSS JOIN sessions NOT INDEXED ON sessions.id = session"
        f" CROSS JOIN homes NOT INDEXED ON homes.id = sessions.home{where} GROUP BY name ORDER BY 2 DESC, 1",
        values,
    )
    nothing = CostReport(amount=None, currency="USD", unpriced_events=0, assumed_events=0)
    for name, calls in rows:
        yield UsageRow(key={"tool": name}, events=0, tokens=TokenSums(), cost=nothing, calls=calls)


def name_untraced(ledger: Ledger, query: UsageQuery, report: UsageReport) -> UsageReport:
    """The report with the kinds of calls that leave no trace at all, as each provider names them."""
    from corral.providers.registry import all_providers

    concerned = list_concerned(ledger, query)
    kinds = [
        UnrecordedRow(provider=provider.name, kind=kind, events=None)
        for provider in all_providers()
        if provider.name in concerned
        for kind in provider.usage.unrecorded_kinds
    ]
    return report._replace(unrecorded=(*report.unrecorded, *kinds))


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


def to_plain(value: Any) -> Any:
    """Records of the standard library and of msgspec alike, by the names of their fields."""
    names: tuple[str, ...] | None = getattr(value, "_fields", None) or getattr(value, "__struct_fields__", None)
    if names is not None:
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {name: to_plain(one) for name, one in cast("dict[str, Any]", value).items()}
    return [to_plain(one) for one in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value
