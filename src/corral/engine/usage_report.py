"""What the ledger says, grouped as asked: events added up, each priced on its own, what is missing said beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from corral.engine.footing import find_currency, find_unknown_prices
from corral.engine.kept_sums import keep_found
from corral.engine.usage_gaps import list_concerned, list_skips, list_unrecorded, say_vague, where_clause
from corral.engine.usage_groups import NOT_OF_TURNS, SUMMED, Sums, add_up, list_models
from corral.engine.usage_losses import list_losses, say_loss
from corral.engine.usage_types import (
    CostReport,
    PriceOrigin,
    SkipRow,
    TokenSums,
    UnrecordedRow,
    UsageQuery,
    UsageReport,
    UsageRow,
)
from corral.store.ledger import Ledger
from corral.system.light_import import import_msgspec

__all__ = [
    "KEYS",
    "SCHEMA",
    "CostReport",
    "SkipRow",
    "TokenSums",
    "UnrecordedRow",
    "UsageQuery",
    "UsageReport",
    "UsageRow",
    "list_rows",
    "name_untraced",
    "report_usage",
]

SCHEMA = 1
KEYS = ("day", "week", "month", "hour", "session", "project", "model", "provider", "branch", "tool")
_PICOS = 10**12


def report_usage(ledger: Ledger, query: UsageQuery) -> UsageReport:
    """Group what is stored. Nothing is read from a provider here.

    Whatever is used is checked first. Raises Damaged where it is not as it was written.
    """
    with ledger.reading():
        report = _report(ledger, query)
    keep_found(ledger)
    return report


def list_rows(ledger: Ledger, query: UsageQuery) -> tuple[UsageRow, ...]:
    """The rows of such a report alone: what is missing from them is not asked for."""
    code, rate = find_currency(ledger)
    with ledger.reading():
        groups = add_up(ledger, query)
    keep_found(ledger)
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
        ),
        losses=losses,
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
            yield f"the configuration prices {model!r} as {listed!r}, and no listed model is called so"


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
    ledger.checks.tables("deeds", "sessions", "homes")
    where, values = where_clause(query, "deeds")
    where += " AND kind = 'tool'" if where else " WHERE kind = 'tool'"
    rows = ledger.db.execute(
        "SELECT name, count(*) FROM deeds NOT INDEXED CROSS JOIN sessions NOT INDEXED ON sessions.id = session"
        f" CROSS JOIN homes NOT INDEXED ON homes.id = sessions.home{where} GROUP BY name ORDER BY 2 DESC, 1",
        values,
    )
    nothing = CostReport(amount=None, currency="USD", unpriced_events=0, assumed_events=0)
    for name, calls in rows:
        yield UsageRow(key={"tool": name}, events=0, tokens=TokenSums(), cost=nothing, calls=calls)


def name_untraced(ledger: Ledger, query: UsageQuery, report: UsageReport) -> UsageReport:
    """The report with the kinds of calls that leave no trace at all, as each provider names them."""
    import_msgspec()
    from corral.engine.catalogue import all_providers

    concerned = list_concerned(ledger, query)
    kinds = [
        UnrecordedRow(provider=provider.name, kind=kind, events=None)
        for provider in all_providers()
        if provider.name in concerned
        for kind in provider.unrecorded_kinds
    ]
    return report._replace(unrecorded=(*report.unrecorded, *kinds))
