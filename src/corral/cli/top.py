"""`corral top`: what live sessions use of this machine, drawn again and again on a terminal."""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Sequence

from corral.cli.live_screen import LiveScreen, has_live_screen
from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.ps import short_ids
from corral.cli.screen import fit, paint, table, terminal_width, tilde, use_colour
from corral.cli.use_words import say_bytes, say_seconds, say_unreadable, say_use
from corral.machine.text import printable
from corral.model.key import SessionKey
from corral.model.metering import MemoryKind, MeteredSession, Metering
from corral.top import report_metering, start_meter

_EPILOG = """\
examples:
  corral top                 on a terminal: redrawn every 2 s until q or Ctrl-C
  corral top --once          one table
  corral top --json          one look, for programs

%CPU is of one CPU, since the look before; a single look has none. CPU s is all that the processes used since they
began, with children that have ended. MEMORY is PSS, which shares out what processes have in common; with ~, some of
it is RSS, which does not. docs/commands.md says whose a process is.

exit codes: 0 ok, also when there are none · 2 usage · 130 left with Ctrl-C"""
_INTERRUPTED = 130
_LEAVING = {"q": 0, "Q": 0, "\x03": _INTERRUPTED, "": 0}
_LEAST_SECONDS, _MOST_SECONDS = 0.2, 3600.0


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "top",
        summary="what live sessions use of this machine: CPU, memory, processes",
        description="Show what each live session uses: its verified process and all below it, each counted once.",
        epilog=_EPILOG,
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--once", action="store_true", help="print one table (so it is also into a pipe)")
    shape.add_argument("--json", action="store_true", help="print one look as JSON (docs/json.md)")
    parser.add_argument(
        "--interval", metavar="S", type=_parse_interval, default=2.0, help="seconds between looks (default: 2)"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    if args.json:
        print_json(report_metering(start_meter().look()))
        return 0
    if args.once or not has_live_screen():
        print_lines(render(start_meter().look(), width=terminal_width(), colour=use_colour(), rates=False))
        return 0
    return _stay(args.interval)


def _stay(interval: float) -> int:
    gc.enable()  # unlike other commands, this one stays
    meter = start_meter()
    with LiveScreen() as screen:
        while True:
            metering, until = meter.look(), time.monotonic() + interval
            while (seconds := until - time.monotonic()) > 0:
                # Also after another key or a new size of the window: a rate over a moment would say nothing.
                lines = render(metering, width=terminal_width(), colour=use_colour(), rates=True)
                screen.draw(lines, paint(f"every {interval:g} s · q leaves", "grey", use_colour()))
                key = screen.wait_key(seconds)
                if key is not None and (left := _find_leaving(key)) is not None:
                    return left


def _find_leaving(keys: str) -> int | None:
    """The exit code, if one of the keys is one to leave with."""
    return next((_LEAVING[key] for key in (keys or [""]) if key in _LEAVING), None)


def _parse_interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not an interval: seconds from {_LEAST_SECONDS:g} to 3600")
    return seconds


def render(metering: Metering, *, width: int, colour: bool, rates: bool) -> list[str]:
    """A row for each session, then what is shared, what may be somebody's, what could not be read."""
    ordered = sorted(metering.sessions, key=_order)
    short = short_ids([one.session.session_id for one in ordered])
    lines = _table(ordered, short, width, colour, rates)
    more: list[str] = []
    for one in metering.shared:
        tree = one.tree
        serves = f"serves {len(tree.sessions)} sessions ({_name(tree.sessions, short)})"
        more.append(f"shared: pid {tree.pid} ({one.name}) {serves}: {say_use(one.use)}; charged to none")
    for one in metering.strays:
        tree = one.tree
        may_be = f"may be of {_name(tree.sessions, short)}: {tree.reason}"
        more.append(f"? pid {tree.pid} ({one.name}): {say_use(one.use)}, counted for none; {may_be}")
    told = {key for one in metering.shared for key in one.tree.sessions}
    for one in ordered:
        name = short[one.session.session_id]
        if one.use is None and one.session.key not in told:
            more.append(f"? {name}: {one.reason}")
        elif one.use is not None and one.use.unreadable:
            more.append(f"? {name}: {say_unreadable(one.use.unreadable)}")
    lines += [paint(fit(printable(line), width), "violet", colour) for line in more]
    lines += [
        paint(fit(printable(f"! {one.provider}: {one.step}: {one.reason}"), width), "amber", colour)
        for one in metering.degraded
    ]
    return lines or ["no live sessions"]


def _table(
    sessions: Sequence[MeteredSession], short: dict[str, str], width: int, colour: bool, rates: bool
) -> list[str]:
    if not sessions:
        return ["no live sessions"]
    numbers = [("%CPU" if rates else "", "CPU s", "MEMORY", "PROCS"), *(_numbers(one, rates) for one in sessions)]
    widths = [max(len(row[column]) for row in numbers) for column in range(4)]
    words = [("SESSION", "PROVIDER", "DIR", "TITLE"), *(_words(one, short) for one in sessions)]
    rows = [
        (*(cell.rjust(size) for cell, size in zip(figures, widths, strict=True)), *said)
        for figures, said in zip(numbers, words, strict=True)
    ]
    head, *body = table(rows, gives_way=(7, 5, 6, 3, 1, 4), width=width)
    return [paint(head, "grey", colour), *body]


def _numbers(one: MeteredSession, rates: bool) -> tuple[str, ...]:
    percent = f"{one.cpu_percent:.1f}" if one.cpu_percent is not None else "–"
    if one.use is None:
        return "?" if rates else "", "?", "?", "?"
    about = "" if one.use.memory_kind in (MemoryKind.PSS, None) else "~"
    memory = about + say_bytes(one.use.memory_bytes)
    return percent if rates else "", say_seconds(one.use.cpu_seconds), memory, str(one.use.processes)


def _words(one: MeteredSession, short: dict[str, str]) -> tuple[str, ...]:
    session = one.session
    title = printable(session.title or "")
    return short[session.session_id], session.provider, tilde(session.work_dir), title


def _order(one: MeteredSession) -> tuple[object, ...]:
    use = one.use
    if use is None:
        return True, 0.0, 0, 0.0, one.session.session_id
    return False, -(one.cpu_percent or 0.0), -use.memory_bytes, -use.cpu_seconds, one.session.session_id


def _name(keys: Sequence[SessionKey], short: dict[str, str]) -> str:
    return ", ".join(short.get(key.session_id, key.session_id) for key in keys)
