"""A real terminal for a real program: PTY, screen and keyboard, with waits that end and say what they saw."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import secrets
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte

from tests.contract.processes import Proc, descendants, find_marked, read_proc, stop_all

COLUMNS, LINES = 120, 40
_MARK = "CORRAL_TEST_TERMINAL"  # inherited by all that runs in a terminal of ours, so that none is left behind

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
# pyte 0.8.2 misreads CSI sequences with a private prefix other than "?": it would print what follows.
_UNREADABLE = re.compile(rb"\x1b\[[<>=][0-9;:]*[a-zA-Z]|\x1b\[\??[0-9;]*[ \"'$][a-zA-Z]|\x1b\[\?[0-9;]*[a-gi-km-zA-Z]")
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b\[[0-9;:<>=?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78M]")
_UNFINISHED = re.compile(rb"\x1b(\[[0-9;:<>=?]*)?$")


class Terminal:
    """One program on one PTY. Use as a context manager: whatever it started is gone at the end."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = COLUMNS,
        lines: int = LINES,
    ) -> None:
        self.raw = bytearray()
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = threading.Condition()
        self._rest = b""
        self._known: dict[tuple[int, int], Proc] = {}
        self._remembered_at = 0.0
        self._mark = secrets.token_hex(8)
        self._closed = threading.Event()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

        def take_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        try:
            self._process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env={**env, _MARK: self._mark},
                stdin=slave,
                stdout=slave,
                stderr=slave,
                close_fds=True,
                start_new_session=True,
                preexec_fn=take_terminal,
            )
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, or None while the program runs."""
        return self._process.poll()

    def screen(self) -> str:
        """What a person would see now, without trailing blanks."""
        with self._changed:
            return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

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

    def send(self, text: str) -> None:
        """Types this."""
        data = text.encode()
        while data:
            data = data[os.write(self._master, data) :]

    def wait_screen(self, predicate: Callable[[str], bool] | str, timeout: float = 30, *, what: str = "") -> str:
        """Waits until the screen satisfies the predicate (or contains the text), and returns it."""
        wanted = (lambda screen: predicate in screen) if isinstance(predicate, str) else predicate
        deadline = time.monotonic() + timeout
        while True:
            if wanted(shown := self.screen()):
                return shown
            left = deadline - time.monotonic()
            if left <= 0:
                reason = f"not within {timeout} s"
            elif self.exit_code is not None and not self._reader.is_alive():
                reason = f"the program ended with code {self.exit_code}"
            else:
                with self._changed:
                    self._changed.wait(min(left, 0.1))
                if time.monotonic() - self._remembered_at > 1:
                    self._remember()
                continue
            raise TimeoutError(f"waited for {what or predicate!r}: {reason}; the screen shows:\n{self._framed(shown)}")

    def wait_exit(self, timeout: float = 60) -> int:
        """Waits until the program has ended, and returns its exit code."""
        self._remember()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            shown = self._framed(self.screen())
            raise TimeoutError(f"pid {self.pid} still runs after {timeout} s; the screen shows:\n{shown}") from None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the program itself (not to what it started)."""
        self._remember()
        if self.exit_code is None:
            os.kill(self.pid, number)

    def close(self) -> None:
        """Closes the terminal, as if its window was closed: the program gets SIGHUP."""
        self._remember()
        self._closed.set()
        self._reader.join(5)
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def end(self) -> None:
        """Closes the terminal and stops by pid everything that was started in it."""
        self._remember()
        self.close()
        stop_all(list(self._known.values()))
        stop_all(find_marked(_MARK, self._mark))
        self._process.wait(10)

    def _remember(self) -> None:
        # One that leaves its parent can no longer be found from there: note all that are seen, with children.
        alive = [pid for (pid, ticks) in self._known if (now := read_proc(pid)) and now.start_ticks == ticks]
        for proc in descendants(self.pid, *alive):
            self._known[proc.pid, proc.start_ticks] = proc
        self._remembered_at = time.monotonic()

    def _read(self) -> None:
        while not self._closed.is_set():
            readable, _, _ = select.select([self._master], [], [], 0.05)
            if not readable:
                continue
            try:
                data = os.read(self._master, 65536)
            except OSError:  # EIO: the last one on the other side is gone
                break
            if not data:
                break
            self._feed(data)
        with self._changed:
            self._changed.notify_all()

    def _feed(self, data: bytes) -> None:
        with self._changed:
            self.raw += data
            data = self._rest + data
            cut = _UNFINISHED.search(data)
            data, self._rest = (data[: cut.start()], data[cut.start() :]) if cut else (data, b"")
            self._stream.feed(_UNREADABLE.sub(b"", data))
            answers = b"".join(self._answer_to(query, answer) for query, answer in _QUERIES if query.search(data))
            self._changed.notify_all()
        if answers:
            os.write(self._master, answers)

    def _answer_to(self, query: re.Pattern[bytes], answer: bytes) -> bytes:
        if answer:
            return answer
        cursor = self._screen.cursor
        return b"\x1b[%d;%dR" % (cursor.y + 1, cursor.x + 1)

    @staticmethod
    def _framed(screen: str) -> str:
        return "\n".join(f"  | {line}" for line in screen.splitlines()) or "  | (empty)"
