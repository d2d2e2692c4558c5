"""Real terminals for tests: started in a directory of the test's own, and gone when it ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from corral.model.frames import Attached, Exit, Gap, HolderFrame, Modes, Output
from corral.model.process import ProcessIdentity
from corral.sidecar.processes import read_identity
from corral.terminals.client import Client
from corral.terminals.start import Started, start_terminal

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": "$ "}
WAIT_SECONDS = 60.0
"""A bound for a busy machine: what holds is seen at once."""
BASH = ("/bin/bash", "--norc", "--noprofile", "--noediting")


class Held:
    """Starts terminals, and at the end stops whatever is left of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self._started: list[Started] = []

    def start(self, argv: Sequence[str], *, cwd: str = "/", env: dict[str, str] | None = None, **more) -> Started:
        started = start_terminal(self.directory, argv, cwd=cwd, env=env or ENV, **more)
        self._started.append(started)
        return started

    def watch(self, started: Started) -> Viewing:
        return Viewing(Client(self.directory, started.tab))

    def stop(self) -> None:
        for started in self._started:
            for identity in (started.child, started.holder):
                kill(identity)


class Viewing:
    """A client that keeps what it received, with waits that end."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.frames: list[HolderFrame] = []
        self.output = bytearray()
        self.next_offset: int | None = None

    def __enter__(self) -> Viewing:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def attach(self, offset: int | None = None, columns: int = 80, rows: int = 24, *, visible: bool = True) -> Attached:
        self.client.attach(offset, columns, rows, visible=visible)
        return self.wait(lambda: self.last(Attached), "attached")

    def wait(self, condition: Callable[[], object], what: object, timeout: float = WAIT_SECONDS):
        """Receive until the condition holds, and return what it gave."""
        deadline = time.monotonic() + timeout
        while not (found := condition()):
            self.client.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                frame = self.client.receive()
            except TimeoutError:
                raise TimeoutError(self._tell_seen(what)) from None
            assert frame is not None, self._tell_seen(what)
            self._take(frame)
        return found

    def _tell_seen(self, what: object) -> str:
        kinds = [type(frame).__name__ for frame in self.frames[-9:]]
        return f"waited for {what!r}; saw {bytes(self.output[-400:])!r}; the last frames: {kinds}"

    def wait_text(self, text: bytes, timeout: float = WAIT_SECONDS) -> None:
        self.wait(lambda: text in self.output, text, timeout)

    def wait_offset(self, end: int) -> None:
        """Until the program has written so much: a viewer that holds nobody back may get a gap instead of the last."""
        self.wait(lambda: (self.next_offset or 0) >= end, f"all up to {end}")

    def wait_more(self, count: int, unless: bytes | None = None) -> None:
        had = len(self.output)
        self.wait(lambda: len(self.output) >= had + count or (unless and unless in self.output), f"{count} bytes more")

    def wait_frame(self, kind: type, timeout: float = WAIT_SECONDS):
        return self.wait(lambda: self.last(kind), kind.__name__, timeout)

    def last(self, kind: type):
        return next((frame for frame in reversed(self.frames) if isinstance(frame, kind)), None)

    def _take(self, frame: HolderFrame) -> None:
        self.frames.append(frame)
        match frame:
            case Output():
                # Every byte once and in order: the offset of a frame is where the one before ended.
                assert self.next_offset in (None, frame.offset), frame.offset
                self.output += frame.data
                self.next_offset = frame.offset + len(frame.data)
            case Attached():
                self.next_offset = frame.offset
            case Gap():
                assert self.next_offset in (None, frame.offset)
                self.next_offset = frame.end
            case Modes() | Exit() | _:
                pass


def kill(identity: ProcessIdentity) -> None:
    if read_identity(identity.pid) == identity:
        os.kill(identity.pid, signal.SIGKILL)


def wait_until(condition: Callable[[], object], what: str, timeout: float = WAIT_SECONDS) -> None:
    """For what shows on the machine only."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited for {what}")
        time.sleep(0.02)


def is_gone(identity: ProcessIdentity) -> bool:
    return read_identity(identity.pid) != identity


def pss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def holding(directory: Path) -> Iterator[Held]:
    held = Held(directory)
    try:
        yield held
    finally:
        held.stop()
