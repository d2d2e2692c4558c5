"""What the ledger says, grouped as asked, and what is not in it: lines that were skipped, calls without tokens, losses.

Nothing is read from a provider here. Whatever is used is checked first: Damaged is raised where it is not as it was
written.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

import msgspec
from msgspec import structs

from corral.model.prices import PICOS
from corral.model.usage import TokenUsage
from corral.model.usage_report import (
    TIME_KEYS,
    CostReport,
    LossRow,
    PriceOrigin,
    SkipRow,
    UnreadLogs,
    UnrecordedRow,
    UsageQuery,
    UsageReport,
    UsageRow,
)
from corral.usage.changes import MARGIN_S
from corral.usage.checks import Checks
from corral.usage.groups import NOT_OF_TURNS, SUMMED, add_up, list_models
from corral.usage.ledger import CURRENCY, UNKNOWN_PRICES, Ledger
from corral.usage.rows import Row

SCHEMA = 1
_DAYS = 14
"""Of a trend."""

Trend = dict[tuple[str | None, ...], tuple[Decimal, ...]]
"""By the row's key: one figure per day, the oldest first."""


def report_usage(ledger: Ledger, query: UsageQuery) -> UsageReport:
    """Rows, their total, and notes on all that is missing or assumed."""
    with ledger.reading():
        return _report(ledger, query)


def list_rows(ledger: Ledger, query: UsageQuery) -> tuple[UsageRow, ...]:
    """The rows of such a report alone."""
    with ledger.reading():
        return _list_rows(ledger, query)[0]


def _list_rows(ledger: Ledger, query: UsageQuery) -> tuple[tuple[UsageRow, ...], UsageRow]:
    """The rows, and their total. Turns are counted where the keys and filters are known of them."""
    code, rate = find_currency(ledger)
    groups = add_up(ledger, query)
    turns_known = query.model is None and NOT_OF_TURNS.isdisjoint(query.by)
    total = [sum(column) for column in zip(*groups.values(), strict=True)] or [0] * len(SUMMED)
    if query.model is None and not turns_known:
        total[0] = sum(sums[0] for sums in add_up(ledger, query._replace(by=())).values())
    ordered = sorted(groups.items(), key=lambda item: tuple(part or "" for part in item[0]))
    rows = (_row(dict(zip(query.by, key, strict=True)), sums, rate, code, turns_known) for key, sums in ordered)
    return tuple(rows), _row({}, total, rate, code, query.model is None)


def _row(key: dict[str, str | None], sums: Sequence[int], rate: Decimal, currency: str, turns_known: bool) -> UsageRow:
    turns, events, dollars, picos, unpriced, assumed = *sums[:2], *sums[8:]
    amount = Decimal(dollars * PICOS + picos) / PICOS * rate if events > unpriced else None
    return UsageRow(
        key=key,
        events=events,
        tokens=TokenUsage(*sums[2:8]),
        cost=CostReport(amount=amount, currency=currency, unpriced_events=unpriced, assumed_events=assumed),
        turns=turns if turns_known else None,
    )


def _report(ledger: Ledger, query: UsageQuery) -> UsageReport:
    by_tool = query.by == ("tool",)
    rows, total = _list_rows(ledger, query._replace(by=()) if by_tool else query)
    if by_tool:
        rows, total = tuple(_count_tools(ledger, query)), structs.replace(total, turns=None)
    skipped, vague = _list_skips(ledger, query)
    unrecorded = _list_unrecorded(ledger, query)
    unread = _sum_deferred(ledger)
    losses = list_losses(ledger)
    return UsageReport(
        schema=SCHEMA,
        rows=rows,
        total=total,
        unrecorded=tuple(unrecorded),
        skipped=tuple(skipped),
        notice=ledger.notice,
        prices=tuple(_list_origins(ledger, query)),
        notes=(
            *(loss.say() for loss in losses),
            *_say_vague(query, unrecorded, vague),
            *_say_unknown_prices(ledger, query),
            *([_say_deferred(unread, query)] if unread else ()),
        ),
        losses=losses,
        unread=unread,
    )


def find_currency(ledger: Ledger) -> tuple[str, Decimal]:
    """The currency in which money is shown, and how much of it a dollar is."""
    known = ledger.find_memo(CURRENCY) if not ledger.read_only else None
    if known is not None:
        code, _, rate = known.decode().partition(" ")
        return code, Decimal(rate)
    from corral.providers.settings import read_settings

    currency = read_settings().currency
    return (currency.code, currency.rate) if currency else ("USD", Decimal(1))


def find_trend(ledger: Ledger, query: UsageQuery, now: float) -> Trend | None:
    """Money per day and row, or tokens where nothing has a price. None where the rows are times themselves."""
    if any(name in (*TIME_KEYS, "tool") for name in query.by):
        return None
    last = datetime.fromtimestamp(min(now, query.until or now), query.zone)
    days = [(last.date() - timedelta(days=back)) for back in reversed(range(_DAYS))]
    first = datetime(days[0].year, days[0].month, days[0].day, tzinfo=query.zone).timestamp()
    since = first if query.since is None else max(first, query.since)
    rows = list_rows(ledger, query._replace(by=(*query.by, "day"), since=since))
    places = {day.isoformat(): place for place, day in enumerate(days)}
    priced = any(row.cost.amount is not None for row in rows)
    found: dict[tuple[str | None, ...], list[Decimal]] = {}
    for row in rows:
        place = places.get(row.key["day"] or "")
        if place is not None:
            figures = found.setdefault(tuple(row.key[name] for name in query.by), [Decimal(0)] * _DAYS)
            figures[place] += (row.cost.amount or Decimal(0)) if priced else row.tokens.total
    return {key: tuple(figures) for key, figures in found.items()}


# --- prices


def _list_origins(ledger: Ledger, query: UsageQuery) -> Iterator[PriceOrigin]:
    narrowed = any(value is not None for value in query[query._fields.index("since") :])
    models = list_models(ledger, query) if narrowed else None
    ledger.checks.tables("prices")
    query_all = "SELECT model, listed_as, source, dated, assumed FROM prices ORDER BY model, listed_as, source, dated"
    for *origin, dated, assumed in ledger.db.execute(query_all):
        if models is None or origin[0] in models:
            yield PriceOrigin(*origin, dated=dated or None, assumed=bool(assumed))


def _find_unknown_prices(ledger: Ledger) -> dict[str, str]:
    """Models, in lower case, that the configuration prices as one that nobody lists; as which one."""
    kept = ledger.find_memo(UNKNOWN_PRICES)
    if kept is None and not ledger.read_only:  # it is not as it was written
        from corral.providers.settings import read_settings
        from corral.usage.price_table import TablePricer

        return TablePricer(read_settings()).list_unknown()
    return msgspec.json.decode(kept, type=dict[str, str]) if kept else {}


def _say_unknown_prices(ledger: Ledger, query: UsageQuery) -> Iterator[str]:
    unknown = _find_unknown_prices(ledger)
    for model in sorted(list_models(ledger, query)) if unknown else ():
        name = model.strip().lower()
        if listed := unknown.get(name) or unknown.get(name.partition("/")[2]):
            yield f"the configuration prices {model!r} as {listed!r}, and no listed model has that name"


# --- tool calls, and calls without tokens

_WHOSE = "CROSS JOIN sessions NOT INDEXED ON sessions.id = session CROSS JOIN homes NOT INDEXED ON homes.id = home"


def _where(query: UsageQuery, table: str) -> tuple[str, list[object]]:
    """The filters of a query as SQL over one of the tables that have a time."""
    filters = (
        (f"{table}.at >= ?", query.since),
        (f"{table}.at < ?", query.until),
        ("homes.provider = ?", query.provider),
        ("work_dir = ?", query.project),
        ("session_id = ?", query.session),
    )
    terms = [term for term, value in filters if value is not None]
    return " WHERE " + " AND ".join(("1", *terms)), [value for _, value in filters if value is not None]


def _count_tools(ledger: Ledger, query: UsageQuery) -> Iterator[UsageRow]:
    ledger.checks.tables("actions", "sessions", "homes")
    where, values = _where(query, "actions")
    where += " AND kind = 'tool' GROUP BY 1 ORDER BY 2 DESC, 1"
    rows = ledger.db.execute(f"SELECT name, count(*) FROM actions NOT INDEXED {_WHOSE}{where}", values)
    nothing = CostReport(amount=None, currency="USD", unpriced_events=0, assumed_events=0)
    for name, calls in rows:
        yield UsageRow(key={"tool": name}, events=0, tokens=TokenUsage(), cost=nothing, calls=calls)


def _list_unrecorded(ledger: Ledger, query: UsageQuery) -> list[UnrecordedRow]:
    """Calls that left a trace and no tokens, of any model: none is recorded of them."""
    where, values = _where(query, "unrecorded")
    ledger.checks.tables("unrecorded", "homes")
    owners = ledger.db.execute("SELECT DISTINCT session FROM unrecorded").fetchall()
    ledger.checks.rows("sessions", (session for (session,) in owners))
    query_all = f"SELECT homes.provider, kind, count(*) FROM unrecorded {_WHOSE}{where} GROUP BY 1, 2 ORDER BY 1, 2"
    return [UnrecordedRow(*row) for row in ledger.db.execute(query_all, values)]


def name_untraced(ledger: Ledger, query: UsageQuery, report: UsageReport) -> UsageReport:
    """The report with the kinds of calls that leave no trace at all, as each provider names them."""
    from corral.providers.registry import all_providers

    is_whole = query.project is None and query.session is None
    ledger.checks.tables("homes", *(() if is_whole else ("sessions",)))
    where, values = _where(query._replace(since=None, until=None), "")
    source = "homes" if is_whole else "sessions NOT INDEXED CROSS JOIN homes NOT INDEXED ON homes.id = sessions.home"
    select = f"SELECT DISTINCT provider FROM {source}{where}"
    concerned = {name for (name,) in ledger.db.execute(select, values)}
    kinds = [
        UnrecordedRow(provider=provider.name, kind=kind, events=None)
        for provider in all_providers()
        if provider.name in concerned
        for kind in provider.usage.unrecorded_kinds
    ]
    return structs.replace(report, unrecorded=(*report.unrecorded, *kinds))


# --- what was skipped, and what waits

_PLACED = (
    ("provider", "json_extract(described, '$.provider')"),
    ("project", "json_extract(described, '$.work_dir')"),
    ("session", "nullif(json_extract(described, '$.session_id'), '')"),
)
"""What is known of a whole file, by filter. A file of a whole home names no project and no session."""


def _list_skips(ledger: Ledger, query: UsageQuery) -> tuple[list[SkipRow], list[str]]:
    """What was skipped of what is asked about, each once; and the filters of which not all of it is known."""
    ledger.checks.tables("skips")
    sources = ledger.db.execute("SELECT DISTINCT source FROM skips").fetchall()
    ledger.checks.rows("sources", (source for (source,) in sources))
    asked = [(name, column, value) for name, column in _PLACED if (value := getattr(query, name)) is not None]
    known = "".join(f", {column} IS NULL" for _, column, _ in asked)
    where = "".join(f" AND coalesce({column}, ?) = ?" for _, column, _ in asked)
    rows = ledger.db.execute(
        f"SELECT path, skips.offset, reason{known} FROM skips CROSS JOIN sources ON sources.id = source"
        f" WHERE 1{where} ORDER BY 1, 2",
        [value for _, _, value in asked for _ in range(2)],
    ).fetchall()
    vague = [name for place, (name, _, _) in enumerate(asked, 3) if any(row[place] for row in rows)]
    if rows and (query.since, query.until) != (None, None):
        vague.append("time")
    if rows and query.model is not None:
        vague.append("model")
    return list(_name_once(rows)), vague


def _name_once(rows: Iterable[Row]) -> Iterator[SkipRow]:
    """A log that is reached by two names, as a linked directory gives it, is one log."""
    places: dict[str, str] = {}
    seen: set[tuple[str, str, int]] = set()
    for path, offset, reason, *_ in rows:
        directory, name = os.path.split(path)
        if directory not in places:
            places[directory] = os.path.realpath(directory)
        if (one := (places[directory], name, offset)) not in seen:
            seen.add(one)
            yield SkipRow(path=path, offset=offset, reason=reason)


def _say_vague(query: UsageQuery, unrecorded: list[UnrecordedRow], vague: list[str]) -> Iterator[str]:
    """Why more is named than was asked about."""
    if vague:
        yield f"what was skipped is named whatever its {' and '.join(vague)}: that is not known of all of it"
    if unrecorded and query.model is not None:
        yield "calls without tokens are named whatever their model: it is not recorded"


def _sum_deferred(ledger: Ledger) -> UnreadLogs | None:
    """How many logs wait; None where none does."""
    waiting = ledger.count_deferred()
    return UnreadLogs(waiting.files, waiting.bytes, waiting.newest_ns / 1e9) if waiting.files else None


def _say_deferred(unread: UnreadLogs, query: UsageQuery) -> str:
    """Whether what waits could be part of an answer."""
    size = f"{unread.bytes / 1e9:.1f} GB" if unread.bytes >= 1e9 else f"{unread.bytes / 1e6:.1f} MB"
    count = f"{unread.files:,} {'log' if unread.files == 1 else 'logs'} ({size})"
    if query.since is not None and unread.until < query.since - MARGIN_S:
        return f"{count} not read yet: all they hold is older than what was asked about"
    return f"{count} not read yet: what they hold is missing here (corral usage without --since reads everything)"


def list_losses(ledger: Ledger) -> tuple[LossRow, ...]:
    """What was lost and nobody has acknowledged."""
    return read_losses(ledger.db, ledger.checks)


def read_losses(db: sqlite3.Connection, checks: Checks) -> tuple[LossRow, ...]:
    """The same of a ledger that is opened otherwise; nothing of one that a newer corral made."""
    if not checks.enabled:
        return ()
    checks.tables("losses")
    query = "SELECT noticed_at, what, rows, since, until FROM losses WHERE NOT acknowledged ORDER BY id"
    return tuple(LossRow(*row) for row in db.execute(query))
