"""`corral usage`: what was spent, each request once, with what is missing or assumed said beside it."""

from __future__ import annotations

import argparse
import os
import sys
import time

from corral.cli.output import print_csv, print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.progress import progress_bar
from corral.cli.screen import terminal_width, use_colour
from corral.cli.usage_table import list_csv_rows, render
from corral.engine.account import update_ledger
from corral.engine.footing import may_have_problem
from corral.engine.ledger_access import ask_ledger
from corral.engine.periods import find_zone, parse_budget, parse_keys, parse_time
from corral.engine.plain import to_plain
from corral.engine.usage_losses import say_loss
from corral.engine.usage_report import KEYS, UsageQuery, UsageReport, name_untraced, report_usage
from corral.errors import CorralError
from corral.store.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.engine.usage_trend import Trend

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
    zone = find_zone(args.tz)
    now = time.time()
    by = parse_keys("day" if args.by is None else args.by)
    budget = parse_budget(args.budget) if args.budget is not None else None
    query = UsageQuery(
        by=by,
        since=parse_time(args.since, zone, now),
        until=parse_time(args.until, zone, now),
        zone=zone,
        provider=_find_provider(args.provider) if args.provider is not None else None,
        model=args.model,
        project=_find_project(args.project) if args.project is not None else None,
        session=args.session,
    )
    if by == ("tool",) and args.model is not None:
        raise CorralError("no CLI records which model called a tool: --by tool without --model", exit_code=2)
    drawn = sys.stdout.isatty() and not (args.json or args.csv)

    def ask(ledger: Ledger) -> tuple[UsageReport, Trend | None]:
        update_ledger(ledger, progress_bar())
        if may_have_problem(ledger):
            _tell_config_problem()
        asked = _find_session(ledger, query) if query.session is not None else query
        report = report_usage(ledger, asked)
        return name_untraced(ledger, asked, report) if args.json else report, _find_trend(ledger, asked, now, drawn)

    report, trend = ask_ledger(ask, or_memory=True, tell=progress_bar())
    if budget is not None:
        from corral.engine.budget import check_budget

        report = report._replace(budget=check_budget(report, () if args.by is None else by, budget))
    if args.json:
        print_json(to_plain(report))
    elif args.csv:
        print_csv(list_csv_rows(report, query.by))
        for loss in report.losses:
            print(f"corral: {say_loss(loss)}", file=sys.stderr)
    else:
        print_lines(render(report, query.by, width=terminal_width(), colour=use_colour(), drawn=drawn, trend=trend))
    return 1 if report.budget is not None and report.budget.over else 0


def _care(args: argparse.Namespace) -> int:
    from corral.system.light_import import import_msgspec

    import_msgspec()
    from corral.cli.usage_care import run as run_care

    return run_care(args)


def _tell_config_problem() -> None:
    from corral.cli.main import tell_config_problem

    tell_config_problem()


def _find_provider(name: str) -> str:
    from corral.system.light_import import import_msgspec

    import_msgspec()
    from corral.engine.catalogue import find_provider

    return find_provider(name).name


def _find_project(name: str) -> str:
    if not name:  # a variable of a script that is not set must not mean everything
        raise CorralError("--project needs a directory", exit_code=2)
    return os.path.abspath(os.path.expanduser(name))


def _find_session(ledger: Ledger, query: UsageQuery) -> UsageQuery:
    from corral.system.light_import import import_msgspec

    import_msgspec()
    from corral.engine.usage_session import narrow_to_session

    return narrow_to_session(ledger, query)


def _find_trend(ledger: Ledger, query: UsageQuery, now: float, drawn: bool) -> Trend | None:
    if not drawn:
        return None
    from corral.engine.usage_trend import find_trend

    return find_trend(ledger, query, now)


def _explain(args: argparse.Namespace) -> int:
    given = ("by", "since", "until", "provider", "model", "project", "session", "budget", "csv")
    if wrong := [name for name in given if getattr(args, name)]:
        hint = "corral usage --explain SESSION [--tz Z] [--json]"
        raise CorralError(f"--explain is about one session as a whole, without --{wrong[0]}", hint=hint, exit_code=2)
    _tell_config_problem()
    from corral.cli.usage_explanation import render as render_explanation
    from corral.engine.usage_explain import UsageExplanation, explain_usage

    zone = find_zone(args.tz)

    def ask(ledger: Ledger) -> UsageExplanation:
        update_ledger(ledger, progress_bar())
        return explain_usage(ledger, args.explain)

    explanation = ask_ledger(ask, or_memory=True)
    if args.json:
        print_json(explanation)
    else:
        print_lines(render_explanation(explanation, zone, colour=use_colour()))
    return 0
