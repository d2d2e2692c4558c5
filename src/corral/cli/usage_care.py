"""`corral usage --check`, `--rebuild` and `--acknowledge`: looking after the ledger."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from corral.cli.output import print_json, print_lines
from corral.cli.progress import progress_bar
from corral.cli.screen import paint, use_colour
from corral.errors import CorralError
from corral.usage import acknowledge_losses, check_usage, rebuild_ledger

if TYPE_CHECKING:
    from corral.usage import UsageCheck

_SHOWN = 20


def run(args: argparse.Namespace) -> int:
    asked = [name for name in ("check", "rebuild", "acknowledge") if getattr(args, name)]
    given = ("by", "since", "until", "tz", "provider", "model", "project", "session", "budget", "explain", "csv")
    wrong = [*asked[1:], *(name for name in given if getattr(args, name))]
    if wrong:
        hint = f"corral usage --{asked[0]} [--json]"
        raise CorralError(f"--{asked[0]} is about the whole ledger, without --{wrong[0]}", hint=hint, exit_code=2)
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
        print_lines(_render(check))
    return 0 if check.is_right else 1


def _render(check: UsageCheck) -> list[str]:
    colour = use_colour()
    lines = [f"{check.compared:,} requests, turns and calls compared with the logs"]
    if check.only_in_ledger:
        lines.append(f"{check.only_in_ledger:,} more are known to the ledger only: their logs are gone")
    lines += [paint(f"damaged: {name}", "red", colour) for name in check.damaged]
    for one in check.differences[:_SHOWN]:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at))
        lines.append(paint(f"differs: {one.what} of {at}, {one.session}: {one.problem}", "red", colour))
    if (more := len(check.differences) - _SHOWN + check.more_differences) > 0:
        lines.append(f"… and {more:,} more (--json lists them)")
    lines += [paint(loss.say(), "amber", colour) for loss in check.losses]
    if check.notice:
        lines.append(paint(check.notice, "amber", colour))
    if check.is_right:
        lines.append("the ledger says what the logs say")
    else:
        lines.append("corral usage --rebuild rebuilds it from the logs, with all that only the ledger knows")
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
        print_lines(["nothing is known to be lost"])
    return 0
