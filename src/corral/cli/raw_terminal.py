"""This terminal as a viewer of one of corral's: raw keys in, output out, and everything put back at the end."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from types import FrameType
from typing import TYPE_CHECKING

from msgspec import Struct

from corral.model.frames import Ask, Exit, Failed, Gap, Modes, Output, Picture
from corral.terminals import filter_queries, track_modes

_WITH_CURSOR = 1049
"""The mode for the alternate screen that keeps the cursor of the normal one."""
_OPENS_OWN_SCREEN = re.compile(
    rb"(?:\x1b\[[0-9;:<=>?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>78]|\x1b\([0-9A-Z])*?\x1b\[\?%dh"
    % _WITH_CURSOR
)
_WHOLE_SCREEN = b"\x1b[?2026l\x1b[?69l\x1b[?45l\x1b[r\x1b[4l\x1b[20l\x1b]8;;\x1b\\\x1b(B\x1b)B\x1b*B\x1b+B\x0f"
"""Undoes what a program leaves when it is left in the middle: held output, margins, insert mode, links, charsets."""


if TYPE_CHECKING:
    from corral.terminals import Client, Patience

_READ = 1 << 16
_WATCHED = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP)


class Left(StrEnum):
    """How a viewing ended."""

    DETACHED = "detached"
    ENDED = "ended"
    """The program has ended."""
    LOST = "lost"
    """The holder is gone."""


class Viewing(Struct, frozen=True, kw_only=True):
    """The outcome."""

    left: Left
    status: int | None = None
    """The exit code of a program that ended, or the negative signal."""


def _ended_by_itself(viewing: Viewing | None) -> bool:
    """Then its last output stays, and the cursor is where the program left it."""
    return viewing is not None and viewing.left is Left.ENDED and (viewing.status or 0) >= 0


def has_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)


def terminal_size() -> tuple[int, int]:
    size = os.get_terminal_size(1)
    return size.columns or 80, size.lines or 24


class DetachKey:
    """Finds the key in what is typed, also in newer keyboard protocols."""

    def __init__(self, name: str) -> None:
        letter = name.removeprefix("ctrl-")
        self._plain = bytes((ord(letter.upper()) & 0x1F,))
        code = ord(letter.lower())
        self._spelt = re.compile(rb"\x1b\[(?:%d(?::\d*)*;(\d+)(?::1)?(?:;[\d:]*)?u|27;(\d+);%d~)" % (code, code))

    def find(self, data: bytes) -> int:
        """Where it begins, or -1."""
        plain = data.find(self._plain)
        if plain >= 0:
            return plain
        for match in self._spelt.finditer(data):
            if (int(match[1] or match[2]) - 1) & 0b111 == 0b100:  # Ctrl; locks do not matter
                return match.start()
        return -1


def view(client: Client, detach_key: str, *, clear: bool, tell: Callable[[str], None]) -> Viewing:
    """Show the terminal here until the program ends, the holder is gone, or the person leaves.

    `clear` shows it on a screen of its own; else all that the program wrote follows below what is here.
    Raises Silent if the holder does not answer.
    """
    return _View(client, DetachKey(detach_key), tell, clear=clear).run()


class _View:
    def __init__(self, client: Client, detach_key: DetachKey, tell: Callable[[str], None], *, clear: bool) -> None:
        self._client = client
        self._detach_key = detach_key
        self._tell = tell
        self._clear = clear
        self._terminal = OwnTerminal(_write, terminal_size, clear=clear)
        self._problems: list[str] = []
        self._signals: list[int] = []
        self._patience: Patience | None = None
        """Set while the holder owes an answer."""

    def run(self) -> Viewing:
        viewing = None
        saved = termios.tcgetattr(0)
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        before = {number: signal.signal(number, self._note) for number in _WATCHED}
        old_wake = signal.set_wakeup_fd(wake)
        try:
            tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is for the program
            self._client.attach(None if self._clear else 0, *terminal_size(), picture=True)
            self._patience = self._client.await_answer()
            viewing = self._loop(woken)
            return viewing
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(old_wake)
            os.close(woken)
            os.close(wake)
            try:
                (self._terminal.undo if _ended_by_itself(viewing) else self._terminal.leave)()
                termios.tcsetattr(0, termios.TCSADRAIN, saved)
            except (OSError, termios.error):
                pass  # the terminal itself is gone
            for problem in self._problems:
                self._tell(problem)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _loop(self, woken: int) -> Viewing:
        socket = self._client.socket
        while True:
            ready, _, _ = select.select(
                [0, socket, woken], [], [], self._patience.look_seconds if self._patience else None
            )
            if woken in ready:
                os.read(woken, 100)
                while self._signals:
                    if self._signals.pop() != signal.SIGWINCH:
                        return Viewing(left=Left.DETACHED)
                    with suppress(OSError):  # the holder is gone: reading from it says so next
                        self._client.resize(*terminal_size())
            if 0 in ready and not self._read_keys():
                return Viewing(left=Left.DETACHED)
            if socket in ready and (left := self._read_output()) is not None:
                return left
            if self._patience is not None:
                self._patience.check()

    def _read_keys(self) -> bool:
        """False if the person leaves, or the terminal is gone."""
        try:
            data = os.read(0, _READ)
        except OSError:
            return False
        end = self._detach_key.find(data)
        if typed := data if end < 0 else data[:end]:
            try:
                self._client.type(typed)
                if self._patience is None:  # a program may ignore what is typed; its holder has to answer
                    self._client.send(Ask())
                    self._patience = self._client.await_answer()
            except OSError:
                return True  # the holder is gone: reading from it says so next
        return bool(data) and end < 0

    def _read_output(self) -> Viewing | None:
        try:
            data = self._client.socket.recv(_READ)
        except ConnectionError:
            data = b""
        if not data:
            return Viewing(left=Left.LOST)
        self._patience = None
        for frame in self._client.feed(data):
            match frame:
                case Output():
                    self._terminal.show(frame)
                case Picture():
                    self._terminal.show_picture(frame)
                case Modes():
                    self._terminal.show_modes(frame.data)
                case Gap():
                    self._terminal.forget()
                case Exit():
                    return Viewing(left=Left.ENDED, status=frame.status)
                case Failed():
                    self._problems.append(frame.message)
                case _:
                    pass
        return None


def _write(data: bytes) -> None:
    sys.stdout.flush()
    while data:
        data = data[os.write(1, data) :]


class OwnTerminal:
    """The person's own terminal as a viewer.

    Its size is fixed, and what was on it before belongs to the person.
    """

    def __init__(self, write: Callable[[bytes], object], size: Callable[[], tuple[int, int]], *, clear: bool) -> None:
        """`clear` begins on a screen of its own; else output begins below what is there."""
        self._write = write
        self._size = size
        self._reader = track_modes()
        self._queries = filter_queries()
        self._to_clear = True
        """The person's screen still has to be scrolled away."""
        self._begins_cleared = clear
        self._has_shown = False

    def show(self, frame: Output) -> None:
        if self._begins_cleared and not self._has_shown:
            self._clear_before(frame.data)
        self._has_shown = True
        self._reader.feed(frame.data)
        # Queries from before this viewer came: nobody waits for their answers.
        self._write(self._queries.feed(frame.data) if frame.replay else self._queries.flush() + frame.data)

    def show_picture(self, frame: Picture) -> None:
        """A picture is made for a terminal in its initial state, so reset this one first."""
        if frame.first:
            if self._has_shown:
                self._write(self._start_over())
                self._reader = track_modes()
                self._queries.flush()
            self._clear_before(frame.data)
        self._has_shown = True
        self._reader.feed(frame.data)
        self._write(frame.data)

    def show_modes(self, data: bytes) -> None:
        """An older holder sends modes instead of a picture."""
        self._clear_before(data)
        self._reader.feed(data)
        self._write(data)

    def forget(self) -> None:
        """Clear the screen: what is on it is old, and new output follows."""
        self._write(b"\x1b[H\x1b[2J")

    def undo(self) -> None:
        """After a program that ended: its last output stays, and the cursor is where it left it."""
        self._write(self._reader.modes.undo().encode())

    def leave(self) -> None:
        """Leave the program's screen in the middle, and start a new line for what is printed next."""
        start = self._start_over()
        if self._reader.modes.alternate != _WITH_CURSOR:
            self._write(start + b"\x1b[999H\n")  # below the picture
            return
        # The cursor is back where it was. At the start of a line it stays there; elsewhere the blanks fill that line.
        self._write(start + b" " * (self._size()[0] - 1) + b"\r\x1b[K")

    def _clear_before(self, first: bytes) -> None:
        """Once, scroll the person's screen away; not if the program opens a screen of its own."""
        if self._to_clear and not _OPENS_OWN_SCREEN.match(first):
            self._write(b"\n" * (self._size()[1] - 1) + b"\x1b[H\x1b[J")
            self._to_clear = False

    def _start_over(self) -> bytes:
        """Out of a program's screen and its modes, whatever it was writing."""
        unfinished = b"\x18\x1b\\" if self._reader.incomplete_bytes else b""
        return unfinished + _WHOLE_SCREEN + self._reader.modes.undo().encode()
