"""What the ledger says, grouped as asked: events added up, each priced on its own, what is missing said beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from corral.engine.budget import BudgetReport
from corral.engine.catalogue import all_providers
from corral.engine.settings import read_settings
from corral.engine.usage_labels import Labels
from corral.model.prices import PICOS
from corral.model.usage import ModelSource, TokenUsage
from corral.store.ledger import Ledger
from corral.system.price_table import read_price_table
from corral.verdicts.pricing import Prices, count_picos

SCHEMA = 1
KEYS = ("day", "week", "month", "hour", "session", "project", "model", "provider", "branch", "tool")


class UsageQuery(Struct, frozen=True, kw_only=True):
    """What is asked. Times are epoch seconds."""

    by: tuple[str, ...] = ("day",)
    since: float | None = None
    until: float | None = None
    zone: tzinfo
    provider: str | None = None
    model: str | None = None
    project: str | None = None
    session: str | None = None


class CostReport(Struct, frozen=True, kw_only=True):
    """Money of many events. `amount` is what could be priced, null if nothing could."""

    amount: Decimal | None
    currency: str
    unpriced_events: int
    assumed_events: int
    """Priced by a model or a rate that was assumed."""


class UsageRow(Struct, frozen=True, kw_only=True):
    key: dict[str, str | None]
    events: int
    tokens: TokenUsage
    cost: CostReport
    calls: int | None = None
    """By tool: how often it was called; tokens are not known per tool."""
    turns: int | None = None
    """How often the person asked something; null where that is not known by these keys."""


class UnrecordedRow(Struct, frozen=True, kw_only=True):
    """Calls that were made and whose tokens nobody wrote down; `events` is null where they leave no trace."""

    provider: str
    kind: str
    events: int | None


class SkipRow(Struct, frozen=True, kw_only=True):
    path: str
    offset: int
    reason: str


class UsageReport(Struct, frozen=True, kw_only=True):
    """`corral usage --json`."""

    schema: int
    rows: tuple[UsageRow, ...]
    total: UsageRow
    unrecorded: tuple[UnrecordedRow, ...]
    skipped: tuple[SkipRow, ...]
    notice: str | None = None
    budget: BudgetReport | None = None


class _Event(NamedTuple):
    provider: str
    session_id: str
    work_dir: str | None
    at: float
    model: str | None
    model_source: str
    branch: str | None
    tokens: TokenUsage


class _Sum:
    """Adds events up."""

    def __init__(self) -> None:
        self.events = 0
        self.tokens = [0] * 6
        self.picos = 0
        self.unpriced = 0
        self.assumed = 0

    def add(self, event: _Event, picos: int | None, assumed: bool) -> None:
        self.events += 1
        tokens = event.tokens
        kinds = (
            tokens.input,
            tokens.cache_read,
            tokens.cache_write,
            tokens.cache_write_1h,
            tokens.output,
            tokens.reasoning,
        )
        for position, count in enumerate(kinds):
            self.tokens[position] += count
        if picos is None:
            self.unpriced += 1
        else:
            self.picos += picos
            self.assumed += assumed

    def row(self, key: dict[str, str | None], rate: Decimal, currency: str) -> UsageRow:
        priced = self.events > self.unpriced
        amount = Decimal(self.picos) / PICOS * rate if priced else None
        return UsageRow(
            key=key,
            events=self.events,
            tokens=TokenUsage(*self.tokens),
            cost=CostReport(
                amount=amount, currency=currency, unpriced_events=self.unpriced, assumed_events=self.assumed
            ),
        )


def report_usage(ledger: Ledger, query: UsageQuery) -> UsageReport:
    """Group what is stored. Nothing is read from a provider here."""
    config = read_settings()
    prices = Prices(read_price_table().table, config.prices)
    rate = config.currency.rate if config.currency else Decimal(1)
    code = config.currency.code if config.currency else "USD"
    groups: dict[tuple[str | None, ...], _Sum] = {}
    total = _Sum()
    labels = Labels(query.zone)
    rows = tuple(_count_tools(ledger, query)) if query.by == ("tool",) else ()
    for event in _events(ledger, query):
        rates = prices.resolve(event.model, event.at)
        picos = count_picos(rates, event.tokens) if rates is not None else None
        assumed = (rates is not None and rates.assumed) or event.model_source != ModelSource.RECORDED
        total.add(event, picos, assumed)
        if query.by != ("tool",):
            key = tuple(_key_of(name, event, labels) for name in query.by)
            groups.setdefault(key, _Sum()).add(event, picos, assumed)
    ordered = sorted(groups.items(), key=lambda item: tuple(part or "" for part in item[0]))
    return UsageReport(
        schema=SCHEMA,
        rows=rows or tuple(found.row(dict(zip(query.by, key, strict=True)), rate, code) for key, found in ordered),
        total=total.row({}, rate, code),
        unrecorded=tuple(_unrecorded(ledger, query)),
        skipped=tuple(
            SkipRow(path=path, offset=offset, reason=reason)
            for path, offset, reason in ledger.db.execute(
                "SELECT path, skips.offset, reason FROM skips JOIN sources ON sources.id = source ORDER BY 1, 2"
            )
        ),
        notice=ledger.notice,
    )


def _key_of(name: str, event: _Event, labels: Labels) -> str | None:
    match name:
        case "session":
            return f"{event.provider}:{event.session_id}"
        case "project":
            return event.work_dir
        case "model":
            return event.model
        case "provider":
            return event.provider
        case "branch":
            return event.branch
        case _:
            return labels.find(name, event.at)


def where_clause(query: UsageQuery, table: str) -> tuple[str, list[object]]:
    """The filters of a query as SQL over one of the tables that have a time."""
    terms: list[str] = []
    values: list[object] = []
    if query.since is not None:
        terms.append(f"{table}.at >= ?")
        values.append(query.since)
    if query.until is not None:
        terms.append(f"{table}.at < ?")
        values.append(query.until)
    for column, value in (
        ("homes.provider", query.provider),
        ("work_dir", query.project),
        ("session_id", query.session),
    ):
        if value is not None:
            terms.append(f"{column} = ?")
            values.append(value)
    if query.model is not None and table == "events":
        terms.append("model = ?")
        values.append(query.model)
    return (" WHERE " + " AND ".join(terms) if terms else ""), values


def _events(ledger: Ledger, query: UsageQuery) -> Iterator[_Event]:
    where, values = where_clause(query, "events")
    rows = ledger.db.execute(
        "SELECT homes.provider, session_id, work_dir, events.at, model, model_source, branch, input, cache_read,"
        " cache_write, cache_write_1h, output, reasoning FROM events JOIN sessions ON sessions.id = session"
        f" JOIN homes ON homes.id = sessions.home{where}",
        values,
    )
    for row in rows:
        yield _Event(*row[:7], tokens=TokenUsage(*row[7:]))


def _count_tools(ledger: Ledger, query: UsageQuery) -> Iterator[UsageRow]:
    where, values = where_clause(query, "deeds")
    where += " AND kind = 'tool'" if where else " WHERE kind = 'tool'"
    rows = ledger.db.execute(
        "SELECT name, count(*) FROM deeds JOIN sessions ON sessions.id = session"
        f" JOIN homes ON homes.id = sessions.home{where} GROUP BY name ORDER BY 2 DESC, 1",
        values,
    )
    nothing = CostReport(amount=None, currency="USD", unpriced_events=0, assumed_events=0)
    for name, calls in rows:
        yield UsageRow(key={"tool": name}, events=0, tokens=TokenUsage(), cost=nothing, calls=calls)


def _unrecorded(ledger: Ledger, query: UsageQuery) -> Iterator[UnrecordedRow]:
    where, values = where_clause(query, "unrecorded")
    rows: Sequence[tuple[str, str, int]] = ledger.db.execute(
        "SELECT homes.provider, kind, count(*) FROM unrecorded JOIN sessions ON sessions.id = session"
        f" JOIN homes ON homes.id = sessions.home{where} GROUP BY 1, 2 ORDER BY 1, 2",
        values,
    ).fetchall()
    for provider, kind, count in rows:
        yield UnrecordedRow(provider=provider, kind=kind, events=count)
    seen = {row[0] for row in ledger.db.execute("SELECT provider FROM homes")}
    for provider in all_providers():
        if provider.name in seen and query.provider in (None, provider.name):
            for kind in provider.unrecorded_kinds:
                yield UnrecordedRow(provider=provider.name, kind=kind, events=None)
