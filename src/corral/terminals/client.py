"""A viewer's side of a terminal: a Client that blocks, or a Line for whoever reads and writes the socket.

A holder that does not answer is waited for with patience, and never signalled.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from struct import pack, unpack
from types import TracebackType

from corral.errors import NotReachable, Silent
from corral.model.frames import (
    MAX_INPUT,
    Ask,
    Attach,
    End,
    Failed,
    Frame,
    Hello,
    HolderFrame,
    Info,
    Input,
    Leave,
    OutputRun,
    ProtocolError,
    Resize,
    Unknown,
    ViewerFrame,
    Welcome,
)
from corral.model.terminal import Standing
from corral.sidecar.processes import parse_stat, read_identity
from corral.terminals.directory import find_terminal, forget_terminal, say_end
from corral.terminals.files import SOCKET
from corral.terminals.protocol import OUTPUT, FrameReader, decode, encode

_READ = 1 << 16
ANSWER_SECONDS = 8.0
"""Longer than any holder takes, and shorter than the page waits for us."""
LOOK_SECONDS = 1.0
"""After this long we look whether the holder is stopped: then it can't answer, and we stop waiting."""
_HEAD_SIZE = 9
"""Of an Output's payload, before its data: replay (1 byte) and offset (8)."""


def connect(directory: str, tab: str) -> socket.socket:
    """A connected socket, nothing said yet; its other side is the holder on record. Raises NotReachable."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A socket's path is at most 107 bytes long: through the descriptor it always is.
            _connect(client, f"/proc/self/fd/{folder}/{tab}{SOCKET}", directory, tab)
        finally:
            os.close(folder)
    except OSError as error:
        client.close()
        raise NotReachable(_say_unreachable(directory, tab, error)) from error
    except Silent:
        client.close()
        raise
    terminal = find_terminal(directory, tab)
    pid, uid, _ = _peer(client)
    if terminal is None or terminal.holder is None or (pid, uid) != (terminal.holder.pid, os.getuid()):
        client.close()
        raise NotReachable(f"terminal {tab}: process {pid} of user {uid} answers, and it is not the holder")
    return client


def _say_unreachable(directory: str, tab: str, error: OSError) -> str:
    """What became of the terminal helps more than what the kernel says about a missing socket."""
    terminal = find_terminal(directory, tab)
    if terminal is not None and terminal.standing is Standing.ENDED:
        return f"terminal {tab} is closed: its program {say_end(terminal.status)}"
    if terminal is not None and terminal.standing is Standing.LOST:
        return f"terminal {tab} is gone: its holder was killed"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"there is no terminal {tab} (any more)"
    if isinstance(error, ConnectionRefusedError):
        return f"terminal {tab}: nobody answers"
    return f"terminal {tab}: {error.strerror}"


def _connect(client: socket.socket, path: str, directory: str, tab: str) -> None:
    """Wait where many already wait to be let in, but no longer than for any answer."""
    _limit_sending(client, LOOK_SECONDS)
    patience: Patience | None = None
    while True:
        try:
            client.connect(path)
        except BlockingIOError:
            patience = patience or _begin_patience(directory, tab)
            if patience is None:
                raise
            patience.check()
        else:
            _limit_sending(client, ANSWER_SECONDS)
            return


def _begin_patience(directory: str, tab: str) -> Patience | None:
    terminal = find_terminal(directory, tab)
    return Patience(tab, terminal.holder.pid) if terminal is not None and terminal.holder is not None else None


def _limit_sending(client: socket.socket, seconds: float) -> None:
    """The kernel's own limit, also for connecting. Receiving has none: perhaps nothing happens."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pack("ll", int(seconds), 0))


def _peer(connected: socket.socket) -> tuple[int, int, int]:
    return unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))


def name_holder(connected: socket.socket) -> str:
    """A name for exactly this process: one that takes its place has another, even with the same PID."""
    pid = _peer(connected)[0]
    identity = read_identity(pid)
    return f"{identity.boot_id[:8]}-{pid}-{identity.start_ticks}" if identity else f"{pid}-gone"


def dismiss_terminal(directory: str, tab: str) -> None:
    """Somebody saw how the program ended: its holder leaves, if it is still there, and its files are removed."""
    with suppress(NotReachable, OSError), Client(directory, tab) as client:
        client.send(Leave())
        while client.receive_soon() is not None:
            pass
    forget_terminal(directory, tab)


class Client:
    """Speaks to one holder. Frames come in the order in which the holder sent them."""

    def __init__(self, directory: str, tab: str) -> None:
        """Connect and greet. Raises NotReachable, also when both sides share no version."""
        self.socket = connect(directory, tab)
        self.tab = tab
        self._reader = FrameReader()
        self._frames: deque[HolderFrame] = deque()
        try:
            with suppress(BrokenPipeError):  # it has closed already, perhaps after saying why
                self.send(Hello())
            answer = self.receive_soon()
        except (OSError, ProtocolError) as error:
            self.close()
            raise NotReachable(f"terminal {tab}: {error}") from error
        except Silent:
            self.close()
            raise
        if not isinstance(answer, Welcome):
            self.close()
            raise NotReachable(f"terminal {tab}: {answer.message if isinstance(answer, Failed) else 'it is closed'}")
        self.version = answer.version

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Detach: the program goes on."""
        self.socket.close()

    def send(self, frame: ViewerFrame) -> None:
        """Raises Silent when the holder takes nothing any more, OSError when it is gone."""
        try:
            self.socket.sendall(encode(frame))
        except BlockingIOError as error:
            raise describe_silence(self.tab, _peer(self.socket)[0]) from error

    def attach(
        self, offset: int | None, columns: int = 0, rows: int = 0, *, visible: bool = True, picture: bool = False
    ) -> None:
        self.send(Attach(offset, columns, rows, visible, picture))

    def type(self, data: bytes, *, in_replay: bool = False) -> None:
        for start in range(0, len(data), MAX_INPUT):
            self.send(Input(data[start : start + MAX_INPUT], in_replay))

    def resize(self, columns: int, rows: int) -> None:
        self.send(Resize(columns, rows))

    def end(self) -> None:
        """Ask the holder to end the program. An Exit frame says when it has ended."""
        self.send(End())

    def ask(self) -> Info:
        """What the holder says of itself. For a client that is not attached: frames before the answer are lost."""
        self.send(Ask())
        while (frame := self.receive_soon()) is not None:
            if isinstance(frame, Info):
                return frame
        raise NotReachable(f"terminal {self.tab}: the holder is gone")

    def receive(self) -> HolderFrame | None:
        """The next frame; None when the holder has closed. Raises TimeoutError if the socket has a timeout."""
        while not self._frames:
            data = self.socket.recv(_READ)
            if not data:
                return None
            self._frames += self.feed(data)
        return self._frames.popleft()

    def receive_soon(self) -> HolderFrame | None:
        """The next frame where one is due. Raises Silent when none comes."""
        patience = self.await_answer()
        before = self.socket.gettimeout()
        self.socket.settimeout(LOOK_SECONDS)
        try:
            while True:
                try:
                    return self.receive()
                except TimeoutError:
                    patience.check()
        finally:
            self.socket.settimeout(before)

    def await_answer(self) -> Patience:
        """For whoever waits for the socket by other means."""
        return Patience(self.tab, _peer(self.socket)[0])

    def feed(self, data: bytes) -> list[HolderFrame]:
        """Frames from bytes that the caller has read from the socket itself."""
        return [frame for frame in self._reader.feed(data) if not isinstance(frame, Unknown)]  # type: ignore

    def frames(self) -> Iterator[HolderFrame]:
        """All frames until the holder closes."""
        while (frame := self.receive()) is not None:
            yield frame


class Line:
    """Connected, and nothing said yet. Blocks while it connects: from asyncio, make it in a thread."""

    look_seconds = LOOK_SECONDS
    """How long an answer may take before the holder is looked at."""

    def __init__(self, directory: str, tab: str) -> None:
        """Raises NotReachable."""
        self.socket: socket.socket = connect(directory, tab)
        self.holder = name_holder(self.socket)
        """A name for exactly the process at the other side."""
        self._tab = tab
        self._reader = FrameReader()

    def encode(self, *frames: ViewerFrame) -> bytes:
        """What to write for these."""
        return b"".join(map(encode, frames))

    def feed(self, data: bytes) -> list[Frame | OutputRun]:
        """The whole frames in what was read: output as it came, everything else decoded. Raises ProtocolError."""
        merged = merge_output(self._reader.split(data))
        return [
            OutputRun(payload, _end_of(payload)) if kind == OUTPUT else decode(kind, payload)
            for kind, payload in merged
        ]

    def await_answer(self) -> Patience:
        """The wait for an answer, from now on."""
        return Patience(self._tab, _peer(self.socket)[0])


def merge_output(frames: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Join output that continues other output: each message costs the page more than its bytes."""
    merged: list[tuple[int, bytes]] = []
    run: list[bytes] = []
    end = 0
    for kind, payload in frames:
        if kind == OUTPUT and len(payload) < _HEAD_SIZE:
            raise ProtocolError("output without its offset")
        if kind == OUTPUT and run and payload[0] == run[0][0] and int.from_bytes(payload[1:9]) == end:
            run.append(payload[_HEAD_SIZE:])
            end += len(payload) - _HEAD_SIZE
            continue
        _close_run(merged, run)
        merged.append((kind, payload))
        run = [payload] if kind == OUTPUT else []
        end = _end_of(payload) if run else 0
    _close_run(merged, run)
    return merged


def _close_run(merged: list[tuple[int, bytes]], run: list[bytes]) -> None:
    if len(run) > 1:
        merged[-1] = OUTPUT, b"".join(run)


def _end_of(output: bytes) -> int:
    """The offset after the last byte of an Output's payload."""
    return int.from_bytes(output[1:9]) + len(output) - _HEAD_SIZE


def describe_silence(tab: str, pid: int) -> Silent:
    """The error to raise for a holder that does not answer, after a look at it."""
    if _is_stopped(pid):
        remedy = f"kill -CONT {pid} resumes it, and the terminal with it"
        problem = "is stopped"
    else:
        remedy = f"its agent may still be running: try again, or find out what blocks pid {pid}"
        problem = f"has not answered for {ANSWER_SECONDS:.0f} s"
    return Silent(f"terminal {tab}: its holder, pid {pid}, {problem}", remedy)


class Patience:
    """The wait for one answer."""

    look_seconds = LOOK_SECONDS
    """How often to check, at least."""

    def __init__(self, tab: str, pid: int) -> None:
        self._tab = tab
        self._pid = pid
        self._since = time.monotonic()

    def check(self) -> None:
        """Raises Silent when waiting any longer is pointless."""
        waited_seconds = time.monotonic() - self._since
        if waited_seconds >= ANSWER_SECONDS or (waited_seconds >= LOOK_SECONDS and _is_stopped(self._pid)):
            raise describe_silence(self._tab, self._pid)


def _is_stopped(pid: int) -> bool:
    """By a signal, or by its terminal. False when we can't find out."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        stat = parse_stat(os.read(fd, 4096))
    except OSError:
        return False
    finally:
        os.close(fd)
    return stat is not None and stat.state == "T"
