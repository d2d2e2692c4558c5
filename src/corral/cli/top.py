"""`corral top`: what live sessions use of this machine, drawn again and again on a terminal."""

from __future__ import annotations

import argparse
import gc
import math
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from corral.cli.command import JSON, Command
from corral.cli.output import print_json, print_lines, safe_line
from corral.cli.ps import short_ids
from corral.cli.screen import fit, paint, table, terminal_width, tilde, use_colour
from corral.machine.text import control, printable
from corral.model.key import SessionKey
from corral.model.metering import MemoryKind, MeteredSession, Metering, Use
from corral.top import report_metering, start_meter

_HELP = """\
Show what each live session uses: its verified process and all processes below
it, each counted once.

examples:
  corral top                 on a terminal: redrawn every 2 s until q or Ctrl-C
  corral top --once          one table
  corral top --json          one look, for programs

%CPU is of one CPU, since the previous look; a single look has none. CPU s is
all that the processes used since they began, with children that have ended.
MEMORY is PSS, which divides shared memory among processes; with ~, some of it
is RSS, which does not. docs/commands.md says which processes a session has.

exit codes: 0 ok, also when there are none · 2 usage · 130 left with Ctrl-C"""
_INTERRUPTED = 130
_LEAVING = {"q": 0, "Q": 0, "\x03": _INTERRUPTED, "": 0}
_LEAST_SECONDS, _MOST_SECONDS = 0.2, 3600.0
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_ENTER = control("\x1b[?1049h\x1b[?25l\x1b[?7l")
_LEAVE = control("\x1b[?7h\x1b[?25h\x1b[?1049l")
_ENDS = (signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--once", action="store_true", help="print one table (a pipe always gets one)")
    shape.add_argument("--json", action="store_true", help=JSON)
    parser.add_argument(
        "--interval", metavar="S", type=_parse_interval, default=2.0, help="seconds between looks (default: 2)"
    )


def run(args: argparse.Namespace) -> int:
    if args.json:
        print_json(report_metering(start_meter().look()))
        return 0
    if args.once or not has_live_screen():
        print_lines(render(start_meter().look(), width=terminal_width(), colour=use_colour(), rates=False))
        return 0
    return _stay(args.interval)


def _stay(interval: float) -> int:
    gc.enable()  # unlike others, this command stays
    meter = start_meter()
    with LiveScreen() as screen:
        while True:
            metering, until = meter.look(), time.monotonic() + interval
            while (seconds := until - time.monotonic()) > 0:
                # After another key or a resize only redraw: a rate over a moment says nothing.
                lines = render(metering, width=terminal_width(), colour=use_colour(), rates=True)
                screen.draw(lines, paint(f"every {interval:g} s · q leaves", "grey", use_colour()))
                key = screen.wait_key(seconds)
                if key is not None and (left := _find_leaving(key)) is not None:
                    return left


def _find_leaving(keys: str) -> int | None:
    """The exit code if one of the keys leaves."""
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
    """A row for each session; then what is shared, what may belong to one, what could not be read."""
    ordered = sorted(metering.sessions, key=_order)
    short = short_ids([one.session.session_id for one in ordered])
    lines = _table(ordered, short, width, colour, rates)
    more: list[str] = []
    for one in metering.shared:
        tree = one.tree
        serves = f"serves {len(tree.sessions)} sessions ({_name(tree.sessions, short)})"
        more.append(f"shared: pid {tree.pid} ({one.name}) {serves}: {say_use(one.use)}; charged to no session")
    for one in metering.strays:
        tree = one.tree
        may_be = f"may belong to {_name(tree.sessions, short)}: {tree.reason}"
        more.append(f"? pid {tree.pid} ({one.name}): {say_use(one.use)}, counted for no session; {may_be}")
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


# --- what processes use, in words: the same in `corral show`


def say_metered(one: MeteredSession) -> str:
    """One line about one session, also if nothing is known."""
    if one.use is None:
        return f"unknown: {one.reason}"
    return say_use(one.use) + (f"; {one.reason}" if one.reason else "")


def say_use(use: Use) -> str:
    """As in "3 processes, 12.4 s CPU, 310 MB (PSS)"."""
    plural = "process" if use.processes == 1 else "processes"
    kind = {None: "", MemoryKind.MIXED: " (PSS, some RSS)"}.get(use.memory_kind, f" ({use.memory_kind})".upper())
    said = f"{use.processes} {plural}, {say_seconds(use.cpu_seconds)} s CPU, {say_bytes(use.memory_bytes)}{kind}"
    return f"{said}; {say_unreadable(use.unreadable)}" if use.unreadable else said


def say_unreadable(count: int) -> str:
    return "1 process can't be read" if count == 1 else f"{count} processes can't be read"


def say_seconds(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 1000 else f"{seconds:,.0f}"


def say_bytes(count: int) -> str:
    """With about three digits."""
    for size, unit in _UNITS:
        if count >= size:
            number = count / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{count} B"


# --- a screen that is drawn again and again


def has_live_screen() -> bool:
    """Whether there is a terminal to draw on and to read keys from."""
    return os.isatty(0) and os.isatty(1) and os.environ.get("TERM", "dumb") != "dumb"


class LiveScreen:
    """This terminal's other screen, given back on every way out, by a signal too.

    Keys come at once and unseen; Ctrl-C is a key like others.
    """

    def __enter__(self) -> LiveScreen:
        self._saved: list[Any] = termios.tcgetattr(0)
        # A signal must end the wait for keys: Python writes its number to this pipe.
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._old_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._handlers = {signal.SIGWINCH: signal.signal(signal.SIGWINCH, _note)}
        for number in _ENDS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                self._handlers[number] = signal.signal(number, _end)
        plain = [*self._saved[:3], self._saved[3] & ~(termios.ICANON | termios.ECHO | termios.ISIG), *self._saved[4:]]
        try:
            termios.tcsetattr(0, termios.TCSADRAIN, plain)
            _write(_ENTER)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def draw(self, lines: Sequence[str], footer: str) -> None:
        """Draw from the top; lines that don't fit above the footer are counted instead."""
        room = max(1, (os.get_terminal_size(1).lines or 24) - 1)
        shown = [*lines, footer]
        if len(lines) > room:
            shown = [*lines[: room - 1], f"… {len(lines) - room + 1} more", footer]
        between = control("\x1b[K\r\n")
        _write(control("\x1b[H") + between.join(map(safe_line, shown)) + control("\x1b[K\x1b[J"))

    def wait_key(self, seconds: float) -> str | None:
        """What was typed; "" if the terminal is gone; None if nothing was typed, or the size changed."""
        ready, _, _ = select.select([0, self._woken], [], [], seconds)
        if self._woken in ready:
            with suppress(BlockingIOError):
                os.read(self._woken, 100)
        if 0 not in ready:
            return None
        try:
            return os.read(0, 100).decode(errors="replace")
        except OSError:
            return ""

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wake)
        os.close(self._woken)
        os.close(self._wake)
        with suppress(OSError):  # the terminal itself may be gone
            _write(_LEAVE)
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)


def _note(_number: int, _frame: FrameType | None) -> None:
    """The pipe wakes the wait."""


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


COMMANDS = {"top": Command(_HELP, add_arguments, run)}
