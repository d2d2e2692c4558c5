"""`corral terminals`: the terminals that corral keeps, and which session each has."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import age, table, terminal_width, tilde
from corral.cli.words import say_state
from corral.errors import CorralError, NotFound
from corral.model.key import spoken_id
from corral.model.terminal import Standing
from corral.sessions import appearance_of
from corral.tabs import forget_tab, list_tabs, report_tabs
from corral.terminals import say_end

if TYPE_CHECKING:
    from corral.tabs import Tab

_EPILOG = """\
examples:
  corral terminals             what runs in terminals of corral's, and what has ended there
  corral terminals --json      the same for programs
  corral terminals --forget 3f0a9c1d2b4e5f60

A tab can be given to corral attach in the place of a session.

exit codes: 0 ok · 2 usage; with --forget 1 it is running · 4 not found"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "terminals",
        summary="the terminals that corral keeps",
        description="List the terminals that corral keeps, with the session that each provider names for them.",
        epilog=_EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--forget", metavar="TAB", help="drop one that has ended or was lost from the list")
    return parser


def run(args: argparse.Namespace) -> int:
    if args.forget is not None:
        return _forget(args.forget)
    found = list_tabs()
    if args.json:
        print_json(report_tabs(found))
        return 0
    print_lines(render(found.tabs, time.time(), terminal_width()) or ["no terminals: corral run PROVIDER starts one"])
    return 0


def _forget(name: str) -> int:
    tab = next((tab for tab in list_tabs([name]).tabs), None)
    if tab is None:
        raise NotFound(f"there is no terminal {name!r}", hint="corral terminals lists them")
    if tab.standing is Standing.RUNNING:
        raise CorralError(f"{name} is running", hint="corral kill ends its session")
    forget_tab(name)
    return 0


def render(tabs: tuple[Tab, ...], now: float, width: int) -> list[str]:
    """A table, empty without tabs."""
    if not tabs:
        return []
    rows = [("TAB", "STATE", "PROVIDER", "SESSION", "PID", "UP", "DIR")]
    rows += [_row(tab, now) for tab in tabs]
    return table(rows, (6, 3), width)


def _row(tab: Tab, now: float) -> tuple[str, ...]:
    binding, terminal = tab.binding, tab.terminal
    started_at = terminal.started_at if terminal and terminal.started_at else None
    return (
        tab.tab,
        _say_standing(tab, now),
        binding.provider if binding else "–",
        spoken_id(tab.session.session_id)[:8] if tab.session else (f"? {tab.reason}" if tab.reason else "–"),
        str(terminal.child.pid) if terminal and tab.standing is Standing.RUNNING else "–",
        age(now - started_at) if started_at and tab.standing is Standing.RUNNING else "–",
        tilde(binding.work_dir if binding else None),
    )


def _say_standing(tab: Tab, now: float) -> str:
    match tab.standing:
        case Standing.RUNNING:
            return say_state(appearance_of(tab.session), now) if tab.session else "running"
        case Standing.ENDED:
            status = tab.terminal.status if tab.terminal else None
            return f"ended ({status})" if status is not None and status >= 0 else say_end(status).partition(":")[0]
        case Standing.LOST:
            return "lost"
        case Standing.ELSEWHERE:
            return "elsewhere"
