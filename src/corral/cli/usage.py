"""`corral usage`: what was spent, each request once, with what is missing or assumed; and the care of the ledger."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from msgspec import structs

from corral.cli.command import JSON, Command
from corral.cli.main import tell_config_problem
from corral.cli.output import print_csv, print_json, print_lines, progress_bar, tell
from corral.cli.screen import paint, terminal_width, tilde, use_colour
from corral.cli.usage_table import list_csv_rows, render, say_money
from corral.errors import CorralError
from corral.machine.text import printable
from corral.model.usage import TokenUsage
from corral.model.usage_report import KEYS
from corral.usage import (
    acknowledge_losses,
    check_budget,
    check_usage,
    explain_session,
    parse_budget,
    parse_query,
    read_on,
    rebuild_ledger,
    report_fresh,
)

if TYPE_CHECKING:
    from corral.usage import FileReport, LineReport, ModelReport, UsageCheck, UsageExplanation

_HELP = """\
Add up what the agents used: tokens by kind and money, each recorded request
once.

examples:
  corral usage                               by day
  corral usage --by month,model --since 90d  several keys at once
  corral usage --by project --since 2026-11-01 --tz Asia/Shanghai
  corral usage --by tool                     tool calls, by name and program
  corral usage --csv > usage.csv
  corral usage --since 2026-11-01 --budget 50
                                             exit code 1 if more was spent
  corral usage --by month --budget 50        in any month
  corral usage --explain a0c3                which lines were counted, merged,
                                             skipped
  corral usage --check                       exit code 1 if the logs say
                                             something else

A request is counted once, however often forks, undos and resumes copied it,
and on the session that recorded it first. Times are local unless --tz names
a zone. D is a date (2026-11-15), or days (7d) or hours (12h) ago.

exit codes: 0 ok, also when nothing was used · 1 the ledger can't be used, more
            than the budget was spent, or --check found a difference · 2 usage ·
            3 --session or --explain is ambiguous · 4 --explain finds nothing"""
_MOST_DIFFERENCES = 20
_OUTCOME_COLOURS = {"merged": "grey", "skipped": "amber", "unrecorded": "violet", "unread": "amber", "counted": "green"}
_KNOWN_BY = {
    "recorded": "named in the log",
    "journal": "reported by corral's hook when the session started",
    "config": "assumed: the CLI's configuration as it was when the line was first read",
    "unknown": "neither the log, the journal nor the configuration names it",
}
_KINDS = {"session": "", "sub-agent": " (a sub-agent)", "home": " (of the whole home)", "fork": " (of a fork)"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", metavar="KEYS", help=f"group by: {', '.join(KEYS)}; several with commas (default: day)")
    parser.add_argument("--since", metavar="D", help="only requests from then on")
    parser.add_argument("--until", metavar="D", help="only requests before then")
    parser.add_argument("--tz", metavar="Z", help="the time zone of days and hours, such as Europe/Berlin or UTC")
    parser.add_argument("-p", "--provider", metavar="P", help="only this provider")
    parser.add_argument("--model", metavar="M", help="only this model")
    parser.add_argument("--project", metavar="DIR", help="only sessions that ran in DIR")
    parser.add_argument("--session", metavar="ID", help="only this session: its id, a prefix of it, or provider:id")
    parser.add_argument("--budget", metavar="AMOUNT", help="fail if more was spent; per day, week … if --by says so")
    parser.add_argument("--check", action="store_true", help="recount from the logs and print what differs")
    parser.add_argument("--rebuild", action="store_true", help="rebuild the ledger from the logs; it forgets nothing")
    parser.add_argument("--acknowledge", action="store_true", help="stop reporting what was lost")
    parser.add_argument("--explain", metavar="SESSION", help="which lines of a session were counted, and why")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help=JSON)
    shape.add_argument("--csv", action="store_true", help="print CSV")


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
        raise CorralError("--by tool can't be used with --model: no CLI records which model called a tool", exit_code=2)
    drawn = sys.stdout.isatty() and not (args.json or args.csv)

    report, trend = report_fresh(
        query,
        on_progress=progress_bar(),
        on_doubt=tell_config_problem,
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
            tell(loss.say())
    else:
        print_lines(render(report, query.by, width=terminal_width(), colour=use_colour(), drawn=drawn, trend=trend))
    if report.unread is not None:
        sys.stdout.flush()
        read_on()
    return 1 if report.budget is not None and report.budget.over else 0


def _find_provider(name: str) -> str:
    from corral.providers.registry import find_provider

    return find_provider(name).name


def _find_project(name: str) -> str:
    if not name:  # an unset variable in a script must not mean everything
        raise CorralError("--project needs a directory", exit_code=2)
    return os.path.abspath(os.path.expanduser(name))


# --- looking after the ledger


def _care(args: argparse.Namespace) -> int:
    """`--check`, `--rebuild` and `--acknowledge`: looking after the ledger."""
    asked = [name for name in ("check", "rebuild", "acknowledge") if getattr(args, name)]
    given = ("by", "since", "until", "tz", "provider", "model", "project", "session", "budget", "explain", "csv")
    wrong = [*asked[1:], *(name for name in given if getattr(args, name))]
    if wrong:
        hint = f"corral usage --{asked[0]} [--json]"
        raise CorralError(f"--{asked[0]} is about the whole ledger: leave out --{wrong[0]}", hint=hint, exit_code=2)
    match asked[0]:
        case "check":
            return _check(args.json)
        case "rebuild":
            return _rebuild(args.json)
        case _:
            return _acknowledge(args.json)


def _check(as_json: bool) -> int:
    check = check_usage(progress_bar())
    if as_json:
        print_json(check)
    else:
        print_lines(_render_check(check))
    return 0 if check.is_right else 1


def _render_check(check: UsageCheck) -> list[str]:
    colour = use_colour()
    lines = [f"{check.compared:,} requests, turns and calls compared with the logs"]
    if check.only_in_ledger:
        lines.append(f"{check.only_in_ledger:,} more are only in the ledger: their logs are gone")
    lines += [paint(f"damaged: {name}", "red", colour) for name in check.damaged]
    for one in check.differences[:_MOST_DIFFERENCES]:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at))
        lines.append(paint(f"differs: {one.what} of {at}, {one.session}: {one.problem}", "red", colour))
    if (more := len(check.differences) - _MOST_DIFFERENCES + check.more_differences) > 0:
        lines.append(f"… and {more:,} more (--json lists them)")
    lines += [paint(loss.say(), "amber", colour) for loss in check.losses]
    if check.notice:
        lines.append(paint(check.notice, "amber", colour))
    if check.is_right:
        lines.append("the ledger matches the logs")
    else:
        lines.append("corral usage --rebuild rebuilds it from the logs and keeps what only the ledger knows")
    return lines


def _rebuild(as_json: bool) -> int:
    notice, losses = rebuild_ledger(progress_bar())
    if as_json:
        print_json({"schema": 1, "notice": notice, "losses": losses})
    else:
        print_lines([notice, *(paint(loss.say(), "amber", use_colour()) for loss in losses)])
    return 0


def _acknowledge(as_json: bool) -> int:
    losses = acknowledge_losses()
    if as_json:
        print_json({"schema": 1, "acknowledged": losses})
    elif losses:
        print_lines([f"acknowledged: {loss.say().rpartition(' (')[0]}" for loss in losses])
    else:
        print_lines(["there are no known losses"])
    return 0


# --- why it was counted so


def _explain(args: argparse.Namespace) -> int:
    given = ("by", "since", "until", "provider", "model", "project", "session", "budget", "csv")
    if wrong := [name for name in given if getattr(args, name)]:
        hint = "corral usage --explain SESSION [--tz Z] [--json]"
        raise CorralError(f"--explain is about one whole session: leave out --{wrong[0]}", hint=hint, exit_code=2)
    tell_config_problem()
    zone = parse_query(tz=args.tz).zone
    explanation = explain_session(args.explain, progress_bar())
    if args.json:
        print_json(explanation)
    else:
        print_lines(_render_explanation(explanation, zone, colour=use_colour()))
    return 0


def _render_explanation(explanation: UsageExplanation, zone: tzinfo, *, colour: bool) -> list[str]:
    """The count first, then what it rests on."""
    lines = [
        f"{explanation.session}  {tilde(explanation.work_dir)}",
        f"{_plural(explanation.events, 'request')} counted, {_plural(explanation.turns, 'turn')},"
        f" {_plural(explanation.tool_calls, 'call')} of tools",
    ]
    for file in explanation.files:
        lines += _file_lines([line for line in explanation.lines if line.path == file.path], file, colour)
    if not explanation.files:
        lines.append("- its logs are gone: all of this is from the ledger alone")
    if explanation.kept:
        first, last = (datetime.fromtimestamp(explanation.kept[end].at, zone) for end in (0, -1))
        lines.append(
            f"- in the ledger only: {_plural(len(explanation.kept), 'request')} whose lines are gone,"
            f" {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
        )
    for model in explanation.models:
        lines += _model_lines(model)
    if explanation.unrecorded:
        kinds = ", ".join(f"{count:,} × {kind}" for kind, count in explanation.unrecorded.items())
        lines.append(f"- left a trace, but no tokens: {kinds}")
    lines.append("- this CLI never records: " + "; ".join(explanation.untraced))
    lines += [f"- note: {loss.say()}" for loss in explanation.losses]
    if explanation.notice:
        lines.append(f"- note: {explanation.notice}")
    return lines


def _file_lines(lines: list[LineReport], file: FileReport, colour: bool) -> Iterator[str]:
    outcomes = ("counted", "merged", "skipped", "unrecorded", "unread")
    counts = [f"{getattr(file, name):,} {name}" for name in outcomes if getattr(file, name)]
    yield f"- {tilde(file.path)}{_KINDS[file.kind]}: {', '.join(counts) or 'nothing of it is usage'}"
    groups: dict[tuple[str, str], list[int]] = {}
    plain = "the first line with this event id"
    for line in lines:
        if line.reason != plain:
            groups.setdefault((line.outcome, line.reason), []).append(line.offset)
    for (outcome, reason), offsets in groups.items():
        where = ("byte " if len(offsets) == 1 else "bytes ") + ", ".join(map(str, offsets))
        yield f"    {paint(outcome, _OUTCOME_COLOURS[outcome], colour)}: {printable(reason)}"
        yield f"        {where}"
    if file.read_to is not None and file.read_to < file.size:
        yield f"    the last {file.size - file.read_to:,} bytes are not a whole line yet"


def _model_lines(model: ModelReport) -> Iterator[str]:
    name = printable(model.model) if model.model else "unknown model"
    yield f"- {name}: {_plural(model.events, 'request')}, {_say_tokens(model.tokens)}"
    yield f"    model: {_KNOWN_BY.get(model.known_by, model.known_by)}"
    if model.amount is None:
        yield "    price: unknown, so it is not in any sum"
        return
    dated = f" of {model.dated}" if model.dated else ""
    assumed = f", assumed to be {model.priced_as}" if model.assumed else f", listed as {model.priced_as}"
    yield f"    price: {say_money(model.amount, model.currency)} by {model.source}{dated}{assumed}"


def _say_tokens(tokens: TokenUsage) -> str:
    kinds = (
        ("input", tokens.input),
        ("cache read", tokens.cache_read),
        ("cache write", tokens.cache_write),
        ("1-hour cache write", tokens.cache_write_1h),
        ("output", tokens.output),
        ("reasoning", tokens.reasoning),
    )
    return ", ".join(f"{count:,} {name}" for name, count in kinds if count) or "no tokens"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


COMMANDS = {"usage": Command(_HELP, add_arguments, run)}
