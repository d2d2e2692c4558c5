"""`corral usage`: what was spent, each request once, with what is missing or assumed said beside it."""

from __future__ import annotations

import argparse
import os
import sys
import time

from msgspec import structs

from corral.cli.output import print_csv, print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.progress import progress_bar
from corral.cli.screen import terminal_width, use_colour
from corral.cli.usage_table import list_csv_rows, render
from corral.errors import CorralError
from corral.model.usage_report import KEYS
from corral.usage import (
    check_budget,
    explain_session,
    parse_budget,
    parse_query,
    read_on,
    report_fresh,
)

_EXAMPLES = """\
examples:
  corral usage                                by day
  corral usage --by month,model --since 90d   several keys at once
  corral usage --by project --since 2026-11-01 --tz Asia/Shanghai
  corral usage --by tool                      calls of tools, by name and program
  corral usage --csv > usage.csv
  corral usage --since 2026-11-01 --budget 50     exit code 1 when more was spent
  corral usage --by month --budget 50             in any month
  corral usage --explain a0c3                     which lines were counted, merged, skipped
  corral usage --check                            exit code 1 if the logs say otherwise

Each request that a provider recorded is counted once, however often forks, undos and resumes copied it, on the
session that first recorded it. Times are local unless --tz names a zone. SINCE and UNTIL are dates (2026-11-15), days
(7d) or hours (12h) ago.

exit codes: 0 ok, also when nothing was used · 1 the ledger can't be used, or more than the budget was spent, or with
            --check something differs · 2 usage
            with --session or --explain also 3 ambiguous · with --explain 4 not found"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "usage",
        summary="what was spent: tokens and money by day, project, model …",
        description="Add up what the agents used: tokens by kind and money, each recorded request once.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "--by", metavar="KEYS", help="group by: " + ", ".join(KEYS) + "; several with commas (default: day)"
    )
    parser.add_argument("--since", metavar="D", help="only requests from then on")
    parser.add_argument("--until", metavar="D", help="only requests before then")
    parser.add_argument("--tz", metavar="Z", help="the time zone of days and hours, such as Europe/Berlin or UTC")
    parser.add_argument("-p", "--provider", metavar="P", help="only this provider")
    parser.add_argument("--model", metavar="M", help="only this model")
    parser.add_argument("--project", metavar="DIR", help="only sessions that ran in DIR")
    parser.add_argument("--session", metavar="ID", help="only this session: its id, the start of it, or provider:id")
    parser.add_argument("--budget", metavar="AMOUNT", help="fail when more was spent; per day, week … if --by says so")
    parser.add_argument("--check", action="store_true", help="recount from the logs and say where that differs")
    parser.add_argument(
        "--rebuild", action="store_true", help="make the ledger again from the logs; nothing it knows goes"
    )
    parser.add_argument("--acknowledge", action="store_true", help="take note of what was lost: it is said no more")
    parser.add_argument("--explain", metavar="SESSION", help="which lines of a session were counted, and why")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--csv", action="store_true", help="print CSV")
    return parser


def run(args: argparse.Namespace) -> int:
    if args.check or args.rebuild or args.acknowledge:
        return _care(args)
    if args.explain is not None:
        return _explain(args)
    budget = parse_budget(args.budget) if args.budget is not None else None
    query = parse_query("day" if args.by is None else args.by, args.since, args.until, args.tz)._replace(
        provider=_find_provider(args.provider) if args.provider is not None else None,
        model=args.model,
        project=_find_project(args.project) if args.project is not None else None,
        session=args.session,
    )
    if query.by == ("tool",) and args.model is not None:
        raise CorralError("no CLI records which model called a tool: --by tool without --model", exit_code=2)
    drawn = sys.stdout.isatty() and not (args.json or args.csv)

    report, trend = report_fresh(
        query,
        on_progress=progress_bar(),
        on_doubt=_tell_config_problem,
        untraced=args.json,
        trend_at=time.time() if drawn else None,
    )
    if budget is not None:
        report = structs.replace(report, budget=check_budget(report, () if args.by is None else query.by, budget))
    if args.json:
        print_json(report)
    elif args.csv:
        print_csv(list_csv_rows(report, query.by))
        for loss in report.losses:
            print(f"corral: {loss.say()}", file=sys.stderr)
    else:
        print_lines(render(report, query.by, width=terminal_width(), colour=use_colour(), drawn=drawn, trend=trend))
    if report.unread is not None:
        sys.stdout.flush()
        read_on()
    return 1 if report.budget is not None and report.budget.over else 0


def _care(args: argparse.Namespace) -> int:
    from corral.cli.usage_care import run as run_care

    return run_care(args)


def _tell_config_problem() -> None:
    from corral.cli.main import tell_config_problem

    tell_config_problem()


def _find_provider(name: str) -> str:
    from corral.providers.registry import find_provider

    return find_provider(name).name


def _find_project(name: str) -> str:
    if not name:  # a variable of a script that is not set must not mean everything
        raise CorralError("--project needs a directory", exit_code=2)
    return os.path.abspath(os.path.expanduser(name))


def _explain(args: argparse.Namespace) -> int:
    given = ("by", "since", "until", "provider", "model", "project", "session", "budget", "csv")
    if wrong := [name for name in given if getattr(args, name)]:
        hint = "corral usage --explain SESSION [--tz Z] [--json]"
        raise CorralError(f"--explain is about one session as a whole, without --{wrong[0]}", hint=hint, exit_code=2)
    _tell_config_problem()
    from corral.cli.usage_explanation import render as render_explanation

    zone = parse_query(tz=args.tz).zone
    explanation = explain_session(args.explain, progress_bar())
    if args.json:
        print_json(explanation)
    else:
        print_lines(render_explanation(explanation, zone, colour=use_colour()))
    return 0
