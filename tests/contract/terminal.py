"""A real terminal for a real program: a PTY, of which nothing is left at the end."""

from __future__ import annotations

import fcntl
import os
import pty
import secrets
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.contract.processes import Proc, descendants, find_marked, read_proc, stop_all
from tests.contract.window import COLUMNS, LINES, Window

_MARK = "CORRAL_TEST_TERMINAL"  # inherited by all that runs in a terminal of ours, so that none is left behind


class Terminal(Window):
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
        super().__init__(columns, lines)
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
        return self._process.poll()

    @property
    def line_modes(self) -> int:
        """The flags of the terminal that programs change: ICANON, ECHO, ISIG …"""
        return termios.tcgetattr(self._master)[3]

    def send(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._master, data) :]

    def wait_exit(self, timeout: float = 60) -> int:
        self._remember()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            shown = self._framed(self.screen())
            raise TimeoutError(f"pid {self.pid} still runs after {timeout} s; the screen shows:\n{shown}") from None
        self._drain()
        return code

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the program itself (not to what it started)."""
        self._remember()
        if self.exit_code is None:
            self._process.send_signal(number)

    def close(self) -> None:
        """Closes the terminal, as if its window was closed: the program gets SIGHUP."""
        self._remember()
        self._closed.set()
        self._reader.join(30)
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def end(self) -> None:
        """Closes the terminal and stops by pid everything that was started in it."""
        self._remember()
        self.close()
        stop_all(list(self._known.values()))
        stop_all(find_marked(_MARK, self._mark))
        self._process.wait(60)

    def _find_end(self) -> str | None:
        if self.exit_code is not None and not self._reader.is_alive():
            return f"the program ended with code {self.exit_code}"
        return None

    def _look_around(self) -> None:
        if time.monotonic() - self._remembered_at > 1:
            self._remember()

    def _remember(self) -> None:
        # One that leaves its parent can no longer be found from there: note all that are seen, with children.
        alive = [pid for (pid, ticks) in self._known if (now := read_proc(pid)) and now.start_ticks == ticks]
        for proc in descendants(self._process.pid, *alive):
            self._known[proc.pid, proc.start_ticks] = proc
        self._remembered_at = time.monotonic()

    def _drain(self) -> None:
        """What it said last is shown then, unless others have the terminal open and are silent for a second."""
        before = -1
        while self._reader.is_alive() and before != len(self.raw):
            before = len(self.raw)
            self._reader.join(1)

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
