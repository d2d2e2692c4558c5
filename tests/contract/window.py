"""What a person sees of a program, wherever its bytes come from: with waits that end and say what they saw."""

from __future__ import annotations

import re
import threading
import time
from abc import abstractmethod
from collections.abc import Callable

import pyte

COLUMNS, LINES = 120, 40
_SETTLE_SECONDS = 0.03  # between two looks that have to agree

# Queries a program may wait for, and what a plain terminal says: DA1, DA2, status, cursor position,
# kitty keyboard, colours of text and background, XTVERSION.
_QUERIES: tuple[tuple[re.Pattern[bytes], bytes], ...] = (
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?62;22c"),
    (re.compile(rb"\x1b\[>0?c"), b"\x1b[>0;276;0c"),
    (re.compile(rb"\x1b\[5n"), b"\x1b[0n"),
    (re.compile(rb"\x1b\[6n"), b""),  # answered with the real position
    (re.compile(rb"\x1b\[\?u"), b"\x1b[?0u"),
    (re.compile(rb"\x1b\]10;\?(\x07|\x1b\\)"), b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    (re.compile(rb"\x1b\]11;\?(\x07|\x1b\\)"), b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
    (re.compile(rb"\x1b\[>0?q"), b"\x1bP>|harness\x1b\\"),
)
# pyte 0.8.2 misreads CSI sequences with a private prefix other than "?", and commands to the application (APC, as which
# a program asks whether images can be drawn): it would print what follows.
_UNREADABLE = re.compile(
    rb"\x1b\[[<>=][0-9;:]*[a-zA-Z]|\x1b\[\??[0-9;]*[ \"'$][a-zA-Z]|\x1b\[\?[0-9;]*[a-gi-km-zA-Z]|\x1b_[^\x1b]*\x1b\\"
)
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b\[[0-9;:<>=?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78M]")
_UNFINISHED = re.compile(rb"(\x1b_[^\x1b]{0,4096})?\x1b?\Z(?<=\x1b)|\x1b_[^\x1b]{0,4096}\Z|\x1b\[[0-9;:<>=?]*\Z")


class Window:
    """A screen and a keyboard. Derive, feed it what the program writes, and say what becomes of the keys."""

    def __init__(self, columns: int = COLUMNS, lines: int = LINES) -> None:
        self.raw = bytearray()
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = threading.Condition()
        self._rest = b""
        self._text: str | None = None
        """The screen as text; None when it was fed since somebody looked."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The program that is shown."""

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, or None while the program runs."""

    @abstractmethod
    def send(self, text: str) -> None:
        """Types this."""

    @abstractmethod
    def close(self) -> None:
        """Nobody looks any more."""

    @abstractmethod
    def end(self) -> None:
        """Closes it; what was started for it alone is gone afterwards."""

    @abstractmethod
    def _find_end(self) -> str | None:
        """Why nothing more will be shown; None while something may come."""

    def _look_around(self) -> None:
        """Called now and then while somebody waits."""

    def wait_exit(self, timeout: float = 60) -> int:
        """Waits until the program has ended, and returns its exit code."""
        self.wait_screen(lambda _: self.exit_code is not None, timeout, what=f"the end of pid {self.pid}")
        assert self.exit_code is not None
        return self.exit_code

    def screen(self) -> str:
        """What a person would see now, without trailing blanks."""
        with self._changed:
            if self._text is None:
                self._text = "\n".join(map(self._row, range(self._screen.lines))).rstrip()
            return self._text

    def _row(self, number: int) -> str:
        # As pyte's own `display`, which asks for the width of every cell: every wait looks several times a second.
        row = self._screen.buffer[number]
        return "".join([row[column].data for column in range(max(row, default=-1) + 1)]).rstrip()

    def title(self) -> str:
        with self._changed:
            return self._screen.title

    def mark(self) -> int:
        """A point in the output, for text_since()."""
        return len(self.raw)

    def text_since(self, mark: int) -> str:
        """All that was printed since then, without escape sequences: also what has left the screen."""
        with self._changed:
            data = bytes(self.raw[mark:])
        return _ESCAPES.sub(b"", data).decode(errors="replace")

    def wait_screen(self, predicate: Callable[[str], bool] | str, timeout: float = 60, *, what: str = "") -> str:
        """Waits until the screen satisfies the predicate (or contains the text) at two looks, and returns it.

        A single look may fall between erasing and drawing, where what is about to be shown again is gone.
        """
        wanted = (lambda screen: predicate in screen) if isinstance(predicate, str) else predicate
        deadline = time.monotonic() + timeout
        was_so = False
        while True:
            ended = self._find_end()  # before the look: its last words may come in between
            is_so, left = wanted(shown := self.screen()), deadline - time.monotonic()
            if is_so and (was_so or ended is not None or left <= 0):
                return shown
            if was_so := is_so:
                with self._changed:
                    self._changed.wait(_SETTLE_SECONDS)
                continue
            if left <= 0:
                reason = f"not within {timeout} s"
            elif (reason := ended) is None:
                with self._changed:
                    self._changed.wait(min(left, 0.1))
                self._look_around()
                continue
            raise TimeoutError(f"waited for {what or predicate!r}: {reason}; the screen shows:\n{self._framed(shown)}")

    def _feed(self, data: bytes, *, answering: bool = True) -> None:
        """Shows this. Queries in it are answered, unless they were asked long ago."""
        with self._changed:
            self.raw += data
            data = self._rest + data
            cut = _UNFINISHED.search(data)
            data, self._rest = (data[: cut.start()], data[cut.start() :]) if cut else (data, b"")
            self._stream.feed(_UNREADABLE.sub(b"", data))
            self._text = None
            asked = (answer for query, answer in _QUERIES if answering and query.search(data))
            answers = b"".join(map(self._answer_to, asked))
            self._changed.notify_all()
        if answers:
            self.send(answers.decode())

    def _answer_to(self, answer: bytes) -> bytes:
        if answer:
            return answer
        cursor = self._screen.cursor
        return b"\x1b[%d;%dR" % (cursor.y + 1, cursor.x + 1)

    @staticmethod
    def _framed(screen: str) -> str:
        return "\n".join(f"  | {line}" for line in screen.splitlines()) or "  | (empty)"
