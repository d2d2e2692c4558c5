"""How usage is drawn: columns that add up, bars, sparklines, budgets, and keys that make no sense."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal

import pytest
from msgspec import structs

from corral.cli.usage_table import bar, render, say_money
from corral.errors import CorralError
from corral.model.usage import TokenUsage
from corral.model.usage_report import CostReport, SkipRow, UsageReport, UsageRow
from corral.usage.query import check_budget, parse_budget, parse_keys, parse_time


def row(name: str | None, amount: str | None, *, key: str = "project", unpriced: int = 0) -> UsageRow:
    cost = CostReport(
        amount=Decimal(amount) if amount else None, currency="USD", unpriced_events=unpriced, assumed_events=0
    )
    return UsageRow(
        key={key: name} if name else {}, events=3, tokens=TokenUsage(1000, 2000, 0, 0, 30, 4), cost=cost, turns=2
    )


def report(*rows: UsageRow, total: UsageRow) -> UsageReport:
    return UsageReport(schema=1, rows=rows, total=total, unrecorded=(), skipped=())


TREND = {("/a",): (Decimal(0), Decimal(1), Decimal(4), Decimal(8)), ("/b",): (Decimal(0),) * 3 + (Decimal(2),)}


def test_rows_have_bars_and_a_sparkline_of_their_days():
    found = report(row("/a", "13"), row("/b", "2"), total=row(None, "15"))
    head, a, b, total = render(found, ("project",), width=200, colour=False, drawn=True, trend=TREND)
    assert head.endswith("4 DAYS")
    assert a.endswith("$13.00  ██████████  ·▂▅█")
    assert b.endswith("$2.00  █▌          ···█")
    assert total.endswith("$15.00")


def test_in_a_pipe_nothing_is_drawn():
    found = report(row("/a", "13"), total=row(None, "13"))
    assert all(line.isascii() for line in render(found, ("project",), width=10_000, colour=False))


def test_numbers_stand_under_their_heads():
    found = report(row("/a", "1300"), row("/b", "2"), total=row(None, "1302"))
    lines = render(found, ("project",), width=200, colour=False)
    ends = {
        line.rindex(word) + len(word)
        for line, word in zip(lines, ("COST", "1,300.00", "2.00", "1,302.00"), strict=True)
    }
    assert len(ends) == 1


def test_turns_are_shown_beside_requests():
    found = report(row("/a", "1"), total=row(None, "1"))
    head, line, _ = render(found, ("project",), width=200, colour=False)
    assert head.split()[:3] == ["PROJECT", "TURNS", "REQUESTS"]
    assert line.split()[:3] == ["/a", "2", "3"]


@pytest.mark.parametrize(("share", "drawn"), [("0", ""), ("0.5", "█████"), ("0.99", "█████████▉"), ("7", "█" * 10)])
def test_a_bar_is_never_longer_than_its_place(share: str, drawn: str):
    assert bar(Decimal(share), 10) == drawn


def test_money_that_is_there_is_not_nothing():
    said = [say_money(Decimal(amount), "USD") for amount in ("0", "0.0001", "0.005", "0.006", "1234.5")]
    assert said == ["$0.00", "<$0.01", "<$0.01", "$0.01", "$1,234.50"]


def test_only_a_sure_overrun_is_over():
    for amount, unpriced, over, at_least in (("9", 0, False, False), ("9", 1, False, True), ("11", 1, True, True)):
        checked = check_budget(report(total=row(None, amount, unpriced=unpriced)), (), Decimal(10))
        assert (checked.over, checked.at_least) == (over, at_least)


def test_every_period_has_the_whole_budget():
    months = [row(name, amount, key="month") for name, amount in (("2026-10", "8"), ("2026-11", "7"))]
    assert not check_budget(report(*months, total=row(None, "15")), ("month",), Decimal(10)).over
    assert check_budget(report(*months, total=row(None, "15")), (), Decimal(10)).over


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("dya", "can't group by 'dya'", "did you mean 'day'?"),
        ("monthly", "can't group by 'monthly'", "did you mean 'month'?"),
        ("colour", "can't group by 'colour'", "keys are day, week"),
        ("day,day", "can't group by 'day' twice", "each key once"),
        ("tool,day", "can't group by 'tool' and something else", "--by tool counts calls"),
        ("", "--by needs a key", "keys are day, week"),
    ],
)
def test_keys_that_make_no_sense_are_told_so(text: str, message: str, hint: str):
    with pytest.raises(CorralError) as raised:
        parse_keys(text)
    assert raised.value.exit_code == 2
    assert message in raised.value.message
    assert hint in " ".join(raised.value.hints)


def test_keys_are_taken_with_blanks_and_capitals():
    assert parse_keys("Day, model") == ("day", "model")


@pytest.mark.parametrize(("text", "amount"), [("50", "50"), ("0.01", "0.01"), ("1e3", "1000")])
def test_a_budget_is_taken_as_written(text: str, amount: str):
    assert parse_budget(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["99999999999d", "9" * 30 + "h", "9" * 5000 + "d", "", "d", "7w", "2026-02-30"])
def test_what_is_no_time_is_said_and_no_bug(text):
    with pytest.raises(CorralError, match="is not a time"):
        parse_time(text, UTC, 1_794_000_000.0)


@pytest.mark.parametrize("text", ["1e999999", "1e-999999", "1e-30"])
def test_a_budget_is_money(text):
    with pytest.raises(CorralError, match="is not an amount"):
        parse_budget(text)


def test_what_is_missing_is_said_also_where_nothing_was_counted():
    total = UsageRow(key={}, events=0, tokens=TokenUsage(), cost=CostReport(None, "USD", 0, 0), turns=0)
    empty = structs.replace(
        report(total=total), skipped=(SkipRow("/a", 0, "torn"), SkipRow("/b", 0, "can't be read: x"))
    )
    _, unread, skipped, notice = render(structs.replace(empty, notice="read-only"), ("day",), width=80, colour=False)
    assert unread.startswith("1 log could not be read") and skipped.startswith("1 line could not be counted")
    assert notice == "read-only"


def test_calls_of_tools_stand_beside_budget_and_notice():
    found = report(structs.replace(row("Shell git", None, key="tool"), calls=3), total=row(None, "5"))
    found = structs.replace(found, notice="read-only", budget=check_budget(found, ("tool",), Decimal(1)))
    lines = render(found, ("tool",), width=80, colour=False)
    assert lines[-2] == "read-only" and lines[-1].endswith("$5.00 of $1.00: over the budget")


def test_a_narrow_terminal_cuts_names_and_never_times():
    one = structs.replace(row(None, "1"), key={"day": "2026-11-15", "project": "/src/" + "long" * 20})
    lines = render(report(one, total=row(None, "1")), ("day", "project"), width=80, colour=False)
    assert lines[1].startswith("2026-11-15  /src/") and "…" in lines[1] and len(lines[1]) <= 80


@pytest.mark.parametrize("key", ["project", "day"])
def test_the_table_fits_every_terminal_and_never_loses_the_money(key):
    rows = [row(name, "1234.5", key=key) for name in ("2026-11-15", "2026-11-16")]
    rows = [
        structs.replace(one, events=123_456, tokens=TokenUsage(12_345_678, 1_234_567_890, 0, 0, 456_789, 0))
        for one in rows
    ]
    found = report(*rows, total=structs.replace(rows[0], key={}))
    for width in range(24, 130):
        lines = render(found, (key,), width=width, colour=False, drawn=True)[:4]
        assert max(map(len, lines)) <= width, lines
        assert "COST" in lines[0] and all("$1,234.50" in line for line in lines[1:])
    assert "12,345,678" in render(found, (key,), width=130, colour=False)[1]
    assert "12.3M" in render(found, (key,), width=70, colour=False)[1]
