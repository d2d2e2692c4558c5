"""Turns beside requests: how often a person asked something, by the same keys."""

from __future__ import annotations

from msgspec.structs import replace

from corral.engine.usage_labels import Labels
from corral.engine.usage_report import CostReport, UsageQuery, UsageReport, UsageRow, where_clause
from corral.model.usage import TokenUsage
from corral.store.ledger import Ledger

_UNKNOWN_OF = frozenset({"model", "branch", "tool"})
"""No provider records these of a turn."""


def add_turns(ledger: Ledger, query: UsageQuery, report: UsageReport) -> UsageReport:
    """The report with `turns` filled in; they stay None where a key or filter is not known of turns.

    Turns of which no request was recorded get rows of their own, so that rows add up to the total.
    """
    if query.model is not None or query.by == ("tool",):
        return report
    turns = _count(ledger, query)
    total = replace(report.total, turns=sum(turns.values()))
    if _UNKNOWN_OF & set(query.by):
        return replace(report, total=total)
    rows = [replace(row, turns=turns.pop(tuple(row.key[name] for name in query.by), 0)) for row in report.rows]
    nothing = CostReport(amount=None, currency=total.cost.currency, unpriced_events=0, assumed_events=0)
    rows += [
        UsageRow(key=dict(zip(query.by, key, strict=True)), events=0, tokens=TokenUsage(), cost=nothing, turns=count)
        for key, count in turns.items()
    ]
    rows.sort(key=lambda row: tuple(row.key[name] or "" for name in query.by))
    return replace(report, rows=tuple(rows), total=total)


def _count(ledger: Ledger, query: UsageQuery) -> dict[tuple[str | None, ...], int]:
    labels = Labels(query.zone)
    where, values = where_clause(query, "deeds")
    found: dict[tuple[str | None, ...], int] = {}
    rows = ledger.db.execute(
        "SELECT homes.provider, session_id, work_dir, CAST(deeds.at / 900 AS INTEGER) * 900, count(*) FROM deeds"
        " JOIN sessions ON sessions.id = session JOIN homes ON homes.id = sessions.home"
        f"{where}{' AND' if where else ' WHERE'} kind = 'turn' GROUP BY 1, 2, 3, 4",
        values,
    )
    for provider, session_id, work_dir, at, count in rows:
        named = {"provider": provider, "session": f"{provider}:{session_id}", "project": work_dir}
        key = tuple(
            named[name] if name in named else (None if name in _UNKNOWN_OF else labels.find(name, at))
            for name in query.by
        )
        found[key] = found.get(key, 0) + count
    return found
