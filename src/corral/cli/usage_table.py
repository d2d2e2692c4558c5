"""What was spent, for people: a table, the total, and what is not in it. And the same as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from corral.cli.screen import cells, paint, table, tilde
from corral.model.usage_report import TIME_KEYS, UNREAD, UsageReport, UsageRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.budget import BudgetPeriod, BudgetReport
    from corral.usage import Trend

_BAR_WIDTH = 10
_BUDGET_WIDTH = 20
_LEAST_NAME = 10
_FIRST_TO_GO = ("WRITTEN", "TURNS", "CACHED", "INPUT", "OUTPUT", "REQUESTS")
"""Columns that a narrow terminal drops, after it shortened names and numbers; `--json` has them all."""


def render(
    report: UsageReport,
    by: tuple[str, ...],
    *,
    width: int,
    colour: bool,
    drawn: bool = False,
    trend: Trend | None = None,
) -> list[str]:
    """A table, the total, and what is not in it. `drawn` adds bars, and with a trend a sparkline."""
    if not report.rows:
        nothing = "no recorded usage matches"
        remarks = [paint(text, "amber", colour) for text in _remarks(report)]
        return [nothing, *remarks, *_budget_lines(report.budget, colour)]
    if by == ("tool",):
        rows = [("TOOL", "CALLS"), *((row.key["tool"] or "", f"{row.calls:,}") for row in report.rows)]
        notice = [paint(text, "amber", colour) for text in (*report.notes, report.notice) if text]
        return [*table(rows, (0,), width), *notice, *_budget_lines(report.budget, colour)]
    head = _head(any(row.turns is not None for row in report.rows))
    room = width - sum(2 + _least_width(name, report) for name in by)
    head, short = _choose_columns(head, report, room)
    figures = [head, *(_cells(row, head, short) for row in (*report.rows, report.total))]
    widths = [max(map(len, column)) for column in zip(*figures, strict=True)]
    keys = [
        tuple(name.upper() for name in by),
        *(tuple(_say_key(name, row.key[name]) for name in by) for row in report.rows),
        ("total", *[""] * (len(by) - 1)),
    ]
    drawings = _drawings(report, by, trend) if drawn else [("", "")] * len(keys)
    rows = [
        (*key, *(cell.rjust(size) for cell, size in zip(numbers, widths, strict=True)), *drawing)
        for key, numbers, drawing in zip(keys, figures, drawings, strict=True)
    ]
    for _ in ("sparkline", "bar"):
        # A cut drawing would lie: show it whole or not at all.
        if _natural_width(rows) > width:
            rows = [row[:-1] for row in rows]
    # A cut time is another time: the other keys give way, the longest first.
    named = [column for column, name in enumerate(by) if name not in TIME_KEYS]
    named.sort(key=lambda column: -max(cells(row[column]) for row in rows))
    lines = table(rows, gives_way=named or (0,), width=width)
    lines[0] = paint(lines[0], "grey", colour)
    lines += [paint(text, "amber", colour) for text in _remarks(report)]
    return lines + _budget_lines(report.budget, colour)


def _least_width(name: str, report: UsageReport) -> int:
    """A time is shown whole; the start of a name is enough."""
    widest = max((cells(row.key[name] or "–") for row in report.rows), default=0)
    return max(len(name), widest if name in TIME_KEYS else min(widest, _LEAST_NAME))


def _choose_columns(head: tuple[str, ...], report: UsageReport, room: int) -> tuple[tuple[str, ...], bool]:
    """The columns that fit, and whether numbers have to be short for that."""
    for columns, short in ((head, False), *((_without(head, count), True) for count in range(len(head)))):
        rows = [columns, *(_cells(row, columns, short) for row in (*report.rows, report.total))]
        if _natural_width(rows) <= room:
            return columns, short
    return ("COST",), True


def _without(head: tuple[str, ...], count: int) -> tuple[str, ...]:
    left_out = _FIRST_TO_GO[:count]
    return tuple(name for name in head if name not in left_out)


def _natural_width(rows: Sequence[Sequence[str]]) -> int:
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + 2 * (sum(1 for size in widths if size) - 1)


def _drawings(report: UsageReport, by: tuple[str, ...], trend: Trend | None) -> list[tuple[str, str]]:
    """For each line a bar and a sparkline: for the head, the rows, the total."""
    most = max((row.cost.amount or Decimal(0) for row in report.rows), default=Decimal(0))
    days = f"{len(next(iter(trend.values())))} DAYS" if trend else ""
    return [("", days), *((_bar(row, most), _spark(row, by, trend)) for row in report.rows), ("", "")]


def _head(turns: bool) -> tuple[str, ...]:
    return (*(("TURNS",) if turns else ()), "REQUESTS", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "COST")


def _cells(row: UsageRow, head: tuple[str, ...], short: bool) -> tuple[str, ...]:
    tokens = row.tokens
    counts = {
        "TURNS": row.turns,
        "REQUESTS": row.events,
        "INPUT": tokens.input,
        "CACHED": tokens.cache_read,
        "WRITTEN": tokens.cache_write + tokens.cache_write_1h,
        "OUTPUT": tokens.output + tokens.reasoning,
    }
    return tuple(say_cost(row) if name == "COST" else _say_count(counts[name], short) for name in head)


def _say_count(count: int | None, short: bool) -> str:
    if count is None:
        return "–"
    if short and count >= 10_000:
        return f"{count / 1e6:,.1f}M" if count >= 999_500 else f"{count / 1e3:.0f}k"
    return f"{count:,}"


def say_cost(row: UsageRow) -> str:
    """What a row cost, with a mark if part of it is assumed or has no price."""
    if row.cost.amount is None:
        return "unpriced" if row.events else "–"
    marks = ("~" if row.cost.assumed_events else "") + ("+" if row.cost.unpriced_events else "")
    return marks + say_money(row.cost.amount, row.cost.currency)


def say_money(amount: Decimal, currency: str) -> str:
    """Money for people; an amount that rounds to nothing is shown as less than a cent."""
    sign = "$" if currency == "USD" else f"{currency} "
    return f"<{sign}0.01" if 0 < amount <= Decimal("0.005") else f"{sign}{amount:,.2f}"


def _bar(row: UsageRow, most: Decimal) -> str:
    if not most or row.cost.amount is None:
        return ""
    return bar(row.cost.amount / most, _BAR_WIDTH)


def bar(share: Decimal, width: int) -> str:
    """A share (0 to 1) as a bar, to an eighth of a cell."""
    eighths = int(min(share, Decimal(1)) * 8 * width)
    return "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]


def _spark(row: UsageRow, by: tuple[str, ...], trend: Trend | None) -> str:
    """One sign per day, the highest for the row's most expensive day; a dot for nothing."""
    figures = trend.get(tuple(row.key[name] for name in by)) if trend else None
    if not figures:
        return ""
    most = max(figures)
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(figure / most * 8))] if figure else "·" for figure in figures)


def _budget_lines(budget: BudgetReport | None, colour: bool) -> list[str]:
    """Each period that is over the budget, or else the newest one."""
    if budget is None:
        return []
    shown = [period for period in budget.periods if period.over] or list(budget.periods[-1:])
    limit = say_money(budget.amount, budget.currency) + (f" a {budget.per}" if budget.per else "")
    lines = [_say_period(period, budget, limit, colour) for period in shown]
    if not lines:
        lines.append(f"budget: none of {limit} is used")
    if budget.at_least and not budget.over:
        lines.append("requests without a known price are not in it: more may have been spent")
    return lines


def _say_period(period: BudgetPeriod, budget: BudgetReport, limit: str, colour: bool) -> str:
    share = period.used / budget.amount
    name = f" {period.key}" if period.key else ""
    used = ("at least " if period.at_least else "") + say_money(period.used, budget.currency)
    drawn = paint(f"{bar(share, _BUDGET_WIDTH):<{_BUDGET_WIDTH}}", "red" if period.over else "green", colour)
    over = ": over the budget" if period.over else ""
    return f"budget{name}  ▕{drawn}▏ {share:.0%}  {used} of {limit}{over}"


def _say_key(name: str, value: str | None) -> str:
    if value is None:
        return "–"
    return tilde(value) if name == "project" else value


def _remarks(report: UsageReport) -> list[str]:
    remarks: list[str] = []
    if assumed := report.total.cost.assumed_events:
        are = "request is" if assumed == 1 else "requests are"
        remarks.append(f"~ {assumed:,} {are} priced by a model or rate that is assumed")
    if report.total.cost.amount is not None and report.prices:
        origins = {f"{one.source} of {one.dated}" if one.dated else "your own" for one in report.prices}
        remarks.append(f"prices: {', '.join(sorted(origins))}")
    if unpriced := report.total.cost.unpriced_events:
        have = "request has no known price and is" if unpriced == 1 else "requests have no known price and are"
        remarks.append(f"+ {unpriced:,} {have} not in the sum")
    traced = [f"{row.events:,} × {row.kind} ({row.provider})" for row in report.unrecorded if row.events]
    if traced:
        remarks.append("not recorded by the CLI, tokens unknown: " + ", ".join(traced))
    unread = sum(1 for one in report.skipped if one.reason.startswith(UNREAD))
    for count, noun, fate in ((unread, "log", "be read"), (len(report.skipped) - unread, "line", "be counted")):
        if count:
            remarks.append(f"{count:,} {noun}{'s' if count > 1 else ''} could not {fate} (--json lists them)")
    remarks += report.notes
    if report.notice:
        remarks.append(report.notice)
    return remarks


def list_csv_rows(report: UsageReport, by: tuple[str, ...]) -> Iterator[Sequence[object]]:
    kinds = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
    yield ([*by, "events", *kinds, "cost", "currency", "unpriced_events", "assumed_events", "calls", "turns"])
    for row in report.rows:
        cost = row.cost
        amount = "" if cost.amount is None else str(cost.amount)
        tokens = [getattr(row.tokens, kind) for kind in kinds]
        keys = [row.key[name] or "" for name in by]
        tail = [
            amount,
            cost.currency,
            cost.unpriced_events,
            cost.assumed_events,
            "" if row.calls is None else row.calls,
            "" if row.turns is None else row.turns,
        ]
        yield ([*keys, row.events, *tokens, *tail])
