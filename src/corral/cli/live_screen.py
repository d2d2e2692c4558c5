"""A screen that is drawn again and again: this terminal's other screen, given back on every way out."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from corral.cli.output import safe_line
from corral.machine.text import control

_ENTER = control("\x1b[?1049h\x1b[?25l\x1b[?7l")
_LEAVE = control("\x1b[?7h\x1b[?25h\x1b[?1049l")
_ENDS = (signal.SIGTERM, signal.SIGHUP)


def has_live_screen() -> bool:
    """Whether there is a terminal that can be drawn on, and read keys from."""
    return os.isatty(0) and os.isatty(1) and os.environ.get("TERM", "dumb") != "dumb"


class LiveScreen:
    """Use as a context manager. Keys come at once and unseen; Ctrl-C is a key like others.

    A signal that ends the program ends it through here, so that the terminal is given back.
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
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's word counts
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
        """From the top; what does not fit above the footer is cut, and counted."""
        room = max(1, (os.get_terminal_size(1).lines or 24) - 1)
        shown = [*lines, footer]
        if len(lines) > room:
            shown = [*lines[: room - 1], f"… {len(lines) - room + 1} more", footer]
        between = control("\x1b[K\r\n")
        _write(control("\x1b[H") + between.join(map(safe_line, shown)) + control("\x1b[K\x1b[J"))

    def wait_key(self, seconds: float) -> str | None:
        """What was typed; "" when the terminal is gone; None when nothing was, or its size has changed."""
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
    """The pipe says it."""


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
