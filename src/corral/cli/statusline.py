"""`corral statusline`: one short line for a prompt, tmux, or an agent's own status line."""

from __future__ import annotations

import argparse
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

from corral.cli.command import JSON, Command
from corral.cli.output import print_json, print_lines
from corral.cli.screen import paint, use_colour
from corral.cli.usage_table import say_money
from corral.model.verdict import Activity, State
from corral.sessions import list_state_words
from corral.usage import read_on, take_glance

if TYPE_CHECKING:
    from corral.usage import Glance, TodayUse

_ZERO = Decimal(0)
_HELP = """\
Print in one line how many sessions are live, waiting or lost, and what today
cost; for a prompt, a status bar or an agent's own status line.

examples:
  corral statusline                            ◆1 ●3 ✖1 · $3.10 today · 41 k tok
  set -g status-right '#(corral statusline)'   in ~/.tmux.conf
  PS1='$(corral statusline) \\$ '               in ~/.bashrc

◆ sessions that wait for you, ● other live ones, ✖ lost in a turn. ~ the model
or rate is assumed, + some requests have no price, ≥ not all logs could be read
in time (corral usage reads them all). "ledger!": something that was counted is
lost (corral usage says what). What can't be known is a word with a question
mark. It does not read standard input.

exit codes: 0 ok, also when something can't be known · 2 usage"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--color", action="store_true", help="use colours, also where the output is not a terminal")
    parser.add_argument("--json", action="store_true", help=JSON)


def run(args: argparse.Namespace) -> int:
    glance = take_glance()
    if args.json:
        print_json(glance)
    else:
        print_lines([render(glance, colour=args.color or use_colour())])
    sys.stdout.flush()
    read_on()
    return 0


def render(glance: Glance, *, colour: bool) -> str:
    """Sessions, money, tokens, and the budget that is used most."""
    parts = [_say_sessions(glance, colour)]
    if glance.today is None:
        parts.append("usage?")
    else:
        parts += _say_today(glance.today, colour)
        if glance.today.losses:
            parts.append("ledger!")
    if glance.config_problem:
        parts.append("config?")
    return " · ".join(parts)


def _say_sessions(glance: Glance, colour: bool) -> str:
    counts = glance.sessions
    if counts is None:
        return "sessions?"
    words = {(one.state, one.activity): one for one in list_state_words()}
    live = words[State.LIVE, None]
    shown = (
        (words[State.LIVE, Activity.WAITING], counts.waiting),
        (live, counts.busy + counts.ready),
        (words[State.ORPHANED, None], counts.lost),
    )
    painted = [paint(f"{one.sign}{count}", one.colour, colour) for one, count in shown if count]
    return " ".join(painted) or paint(f"{live.sign}0", "grey", colour)


def _say_today(today: TodayUse, colour: bool) -> list[str]:
    cost = today.cost
    marks = ("≥" if not today.complete else "") + ("~" if cost.assumed_events else "")
    marks += "+" if cost.unpriced_events else ""
    if cost.amount is not None:
        money = marks + say_money(cost.amount, cost.currency)
    else:
        money = marks.rstrip("+") + ("unpriced" if today.requests else say_money(cost.amount or _ZERO, cost.currency))
    parts = [f"{money} today", f"{_short(today.tokens)} tok"]
    if today.budgets:
        most = max(today.budgets, key=lambda budget: budget.used / budget.amount)
        text = f"{most.used / most.amount:.0%} of the {most.per}'s budget"
        parts.append(paint(text, "red" if most.over else None, colour))
    return parts


def _short(count: int) -> str:
    """A short count: 940, 41 k, 3.2 M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {unit}" if count < 10 * size else f"{count // size} {unit}"
    return str(count)


COMMANDS = {"statusline": Command(_HELP, add_arguments, run)}
