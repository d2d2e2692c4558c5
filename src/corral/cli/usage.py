"""`corral usage`: what was spent, each request once, with what is missing or assumed said beside it."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import time
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import paint, table, terminal_width, tilde, use_colour
from corral.engine.account import Progress, update_ledger
from corral.engine.catalogue import find_provider
from corral.engine.usage_report import KEYS, UsageQuery, UsageReport, UsageRow, report_usage
from corral.errors import CorralError
from corral.store.ledger import Ledger
from corral.system import places

if TYPE_CHECKING:
    from collections.abc import Callable

_EXAMPLES = """\
examples:
  corral usage                                by day
  corral usage --by month,model --since 90d   several keys at once
  corral usage --by project --since 2026-11-01 --tz Asia/Shanghai
  corral usage --by tool                      calls of tools, by name and program
  corral usage --csv > usage.csv

Each request that a provider recorded is counted once, however often forks, undos and resumes copied it, on the
session that first recorded it. Times are local unless --tz names a zone. SINCE and UNTIL are dates (2026-11-15), days
(7d) or hours (12h) ago.

exit codes: 0 ok, also when nothing was used · 1 the ledger can't be used · 2 usage"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "usage",
        summary="what was spent: tokens and money by day, project, model …",
        description="Add up what the agents used: tokens by kind and money, each recorded request once.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "--by", metavar="KEYS", default="day", help="group by: " + ", ".join(KEYS) + "; several with commas"
    )
    parser.add_argument("--since", metavar="D", help="only requests from then on")
    parser.add_argument("--until", metavar="D", help="only requests before then")
    parser.add_argument("--tz", metavar="Z", help="the time zone of days and hours, such as Europe/Berlin or UTC")
    parser.add_argument("-p", "--provider", metavar="P", help="only this provider")
    parser.add_argument("--model", metavar="M", help="only this model")
    parser.add_argument("--project", metavar="DIR", help="only sessions that ran in DIR")
    parser.add_argument("--session", metavar="ID", help="only this session, by its full id")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--csv", action="store_true", help="print CSV")
    return parser


def run(args: argparse.Namespace) -> int:
    zone = _find_zone(args.tz)
    now = time.time()
    query = UsageQuery(
        by=_parse_keys(args.by),
        since=_parse_time(args.since, zone, now),
        until=_parse_time(args.until, zone, now),
        zone=zone,
        provider=find_provider(args.provider).name if args.provider else None,
        model=args.model,
        project=os.path.abspath(os.path.expanduser(args.project)) if args.project else None,
        session=args.session,
    )
    try:
        ledger = Ledger(places.state_dir())
        update_ledger(ledger, _progress_bar())
        report = report_usage(ledger, query)
        ledger.close()
    except (OSError, sqlite3.Error) as error:
        raise CorralError(f"the ledger below {places.state_dir()} can't be used: {error}") from error
    if args.json:
        print_json(report)
    elif args.csv:
        _print_csv(report, query.by)
    else:
        print_lines(render(report, query.by, width=terminal_width(), colour=use_colour()))
    return 0


def render(report: UsageReport, by: tuple[str, ...], *, width: int, colour: bool) -> list[str]:
    """A table, the total, and what is not in it."""
    if not report.rows:
        return ["no usage is recorded, or none that was asked for"]
    if by == ("tool",):
        rows = [("TOOL", "CALLS"), *((row.key["tool"] or "", f"{row.calls:,}") for row in report.rows)]
        return table(rows, (0,), width)
    head = (*(name.upper() for name in by), "REQUESTS", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "COST", "")
    most = max((row.cost.amount or Decimal(0) for row in report.rows), default=Decimal(0))
    body = [(*(_say_key(name, row.key[name]) for name in by), *_cells(row), _bar(row, most)) for row in report.rows]
    body.append(("total", *[""] * (len(by) - 1), *_cells(report.total), ""))
    lines = table([head, *body], gives_way=(len(head) - 1, 0), width=width)
    lines[0] = paint(lines[0], "grey", colour)
    lines += [paint(text, "amber", colour) for text in _remarks(report)]
    return lines


def _cells(row: UsageRow) -> tuple[str, ...]:
    tokens = row.tokens
    counts = (row.events, tokens.input, tokens.cache_read, tokens.cache_write + tokens.cache_write_1h)
    return (*(f"{count:,}" for count in counts), f"{tokens.output + tokens.reasoning:,}", _say_cost(row))


def _say_cost(row: UsageRow) -> str:
    if row.cost.amount is None:
        return "unpriced" if row.events else "–"
    sign = "$" if row.cost.currency == "USD" else f"{row.cost.currency} "
    marks = ("~" if row.cost.assumed_events else "") + ("+" if row.cost.unpriced_events else "")
    return f"{marks}{sign}{row.cost.amount:,.2f}"


def _bar(row: UsageRow, most: Decimal) -> str:
    if not most or row.cost.amount is None:
        return ""
    eighths = int(row.cost.amount / most * 80)
    return "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]


def _say_key(name: str, value: str | None) -> str:
    if value is None:
        return "–"
    return tilde(value) if name == "project" else value


def _remarks(report: UsageReport) -> list[str]:
    remarks: list[str] = []
    if assumed := report.total.cost.assumed_events:
        are = "request is" if assumed == 1 else "requests are"
        remarks.append(f"~ {assumed:,} {are} priced by a model or rate that is assumed")
    if unpriced := report.total.cost.unpriced_events:
        have = "request has no known price and is" if unpriced == 1 else "requests have no known price and are"
        remarks.append(f"+ {unpriced:,} {have} not in the sum")
    traced = [f"{row.events:,} × {row.kind} ({row.provider})" for row in report.unrecorded if row.events]
    if traced:
        remarks.append("not recorded by the CLI, tokens unknown: " + ", ".join(traced))
    if report.skipped:
        remarks.append(f"{len(report.skipped):,} lines could not be counted (--json lists them)")
    if report.notice:
        remarks.append(report.notice)
    return remarks


def _print_csv(report: UsageReport, by: tuple[str, ...]) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    kinds = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
    writer.writerow([*by, "events", *kinds, "cost", "currency", "unpriced_events", "assumed_events", "calls"])
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
        ]
        writer.writerow([*keys, row.events, *tokens, *tail])


def _parse_keys(text: str) -> tuple[str, ...]:
    keys = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [key for key in keys if key not in KEYS]
    if unknown or not keys or len(set(keys)) < len(keys) or ("tool" in keys and len(keys) > 1):
        hint = "keys are " + ", ".join(KEYS) + ", each once; tool stands alone"
        raise CorralError(f"can't group by {text!r}", hint=hint, exit_code=2)
    return keys


def _find_zone(name: str | None) -> tzinfo:
    if name is None:
        found = datetime.now(UTC).astimezone().tzinfo
        return found or UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CorralError(f"no time zone is called {name!r}", hint="for example Europe/Berlin", exit_code=2) from error


def _parse_time(text: str | None, zone: tzinfo, now: float) -> float | None:
    """A date at its midnight, or days or hours before now."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if number.isdecimal() and unit in "dh":
        return now - timedelta(**{"d": {"days": int(number)}, "h": {"hours": int(number)}}[unit]).total_seconds()
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError) as error:
        raise CorralError(f"{text!r} is no time", hint="for example 2026-11-15, 7d or 12h", exit_code=2) from error


def _progress_bar() -> Callable[[Progress], None] | None:
    """Only on a terminal, and only once a scan has taken a while."""
    if not sys.stderr.isatty():
        return None
    begun = time.monotonic()

    def show(progress: Progress) -> None:
        if time.monotonic() - begun < 0.5 or not progress.total_bytes:
            return
        share = progress.done_bytes / progress.total_bytes
        end = "\r\x1b[K" if share >= 1 else ""
        bar = "█" * int(share * 30)
        print(f"\rreading logs {bar:<30} {share:4.0%}{end}", end="", file=sys.stderr, flush=True)

    return show
