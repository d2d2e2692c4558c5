"""A viewer's side of a terminal: one blocking connection to its holder.

From asyncio, use a Line.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator
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
    Hello,
    HolderFrame,
    Info,
    Input,
    Leave,
    ProtocolError,
    Resize,
    Unknown,
    ViewerFrame,
    Welcome,
)
from corral.model.terminal import Standing
from corral.sidecar.processes import read_identity
from corral.terminals.directory import find_terminal, forget_terminal
from corral.terminals.files import SOCKET
from corral.terminals.how_ended import say_end
from corral.terminals.protocol import FrameReader, encode
from corral.terminals.silence import ANSWER_SECONDS, LOOK_SECONDS, Patience, describe_silence

_READ = 1 << 16


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
        raise NotReachable(f"terminal {tab}: pid {pid} of user {uid} answers, who is not its holder")
    return client


def _say_unreachable(directory: str, tab: str, error: OSError) -> str:
    """What the kernel says of a socket that is not there helps nobody; what became of the terminal does."""
    terminal = find_terminal(directory, tab)
    if terminal is not None and terminal.standing is Standing.ENDED:
        return f"terminal {tab} is closed: its program {say_end(terminal.status)}"
    if terminal is not None and terminal.standing is Standing.LOST:
        return f"terminal {tab} is gone: its holder was killed"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"terminal {tab} is not there (any more)"
    if isinstance(error, ConnectionRefusedError):
        return f"terminal {tab}: nobody answers there"
    return f"terminal {tab}: {error.strerror}"


def _connect(client: socket.socket, path: str, directory: str, tab: str) -> None:
    """Where many wait to be let in already, this waits too: no longer than for any answer."""
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
    """The kernel's own limit, for connecting too: receiving may take as long as nothing happens."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pack("ll", int(seconds), 0))


def _peer(connected: socket.socket) -> tuple[int, int, int]:
    return unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))


def await_answer(connected: socket.socket, tab: str) -> Patience:
    """From now on."""
    return Patience(tab, _peer(connected)[0])


def name_holder(connected: socket.socket) -> str:
    """The very process at the other side: one that took its place, under whatever number, has another name."""
    pid = _peer(connected)[0]
    identity = read_identity(pid)
    return f"{identity.boot_id[:8]}-{pid}-{identity.start_ticks}" if identity else f"{pid}-gone"


def dismiss_terminal(directory: str, tab: str) -> None:
    """How its program ended was seen: the holder leaves if it is still there, and nothing is left of it."""
    with suppress(NotReachable, OSError), Client(directory, tab) as client:
        client.send(Leave())
        while client.receive_soon() is not None:
            pass
    forget_terminal(directory, tab)


class Client:
    """Speaks to one holder. Frames come in the order in which the holder sent them."""

    def __init__(self, directory: str, tab: str) -> None:
        """Connect and greet. Raises NotReachable, also when no version is spoken by both."""
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
        """Ask the holder to end the program; an Exit frame tells when it has."""
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
        """For who waits for the socket by other means."""
        return await_answer(self.socket, self.tab)

    def feed(self, data: bytes) -> list[HolderFrame]:
        """Frames from bytes that the caller has read from the socket itself."""
        return [frame for frame in self._reader.feed(data) if not isinstance(frame, Unknown)]  # type: ignore

    def frames(self) -> Iterator[HolderFrame]:
        """All frames until the holder closes."""
        while (frame := self.receive()) is not None:
            yield frame
