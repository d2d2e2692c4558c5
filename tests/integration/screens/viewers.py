"""Viewers whose terminal is one of the page's engine: they do with each frame what the page and `corral attach` do."""

from __future__ import annotations

import socket
import time

from corral.cli.raw_terminal import OwnTerminal
from corral.model.frames import Attached, Gap, HolderFrame, Modes, Output, Picture, Size
from corral.terminals.protocol import FrameReader
from corral.terminals.stream import Stream
from corral.terminals.viewers import Viewer
from tests.integration.screens.xterm import Xterm, Xterms

VERSION = 2


class Watcher:
    """One viewer and its terminal. The page's follows every size; that of `corral attach` has its own."""

    def __init__(self, xterms: Xterms, size: tuple[int, int], *, paints: bool) -> None:
        self.terminal: Xterm = xterms.make(*size)
        self.paints = paints
        self.offset = 0
        self._own = OwnTerminal(self.terminal.write, lambda: self.terminal.size, clear=True)

    def take(self, frame: HolderFrame) -> None:
        match frame:
            case Attached():
                self.offset = frame.offset
            case Output():
                self.offset = frame.offset + len(frame.data)
            case Gap():
                self.offset = frame.end
            case _:
                pass
        if self.paints:
            self._take_as_attach(frame)
        else:
            self._take_as_page(frame)

    def _take_as_attach(self, frame: HolderFrame) -> None:
        match frame:
            case Output():
                self._own.show(frame)
            case Picture():
                self._own.show_picture(frame)
            case Gap():
                self._own.forget()
            case _:
                pass

    def _take_as_page(self, frame: HolderFrame) -> None:
        match frame:
            case Attached():
                self.terminal.resize(frame.columns, frame.rows)
                self.terminal.reset()
            case Output() | Picture() | Modes():
                self.terminal.write(frame.data)
            case Gap():
                self.terminal.reset()
            case Size():
                self.terminal.resize(frame.columns, frame.rows)
            case _:
                pass


class Direct:
    """A watcher of a stream in this very process: nothing is awaited, everything has its order."""

    def __init__(self, xterms: Xterms, stream: Stream, size: tuple[int, int], *, paints: bool, version: int = VERSION):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.watcher = Watcher(xterms, size, paints=paints)
        self._socket = theirs
        self._stream = stream
        self._reader = FrameReader()
        self._viewer = Viewer(ours, 0.0)
        self._viewer.version = version
        self._viewer.paints = paints
        self.attach(None)

    @property
    def terminal(self) -> Xterm:
        return self.watcher.terminal

    def attach(self, wanted: int | None) -> None:
        beginning = self._viewer.attach(wanted, self._stream, 0.0)
        ring = self._stream.ring
        self._viewer.send(Attached(beginning.offset, ring.oldest, ring.head, *beginning.size))

    def resized(self, size: tuple[int, int]) -> None:
        """After the stream was told of it."""
        if self.watcher.paints:
            self.terminal.resize(*size)
            self._viewer.wants_picture = True

    def catch_up(self) -> None:
        while True:
            self._viewer.pump(self._stream, None, 0.0)
            try:
                data = self._socket.recv(1 << 20)
            except BlockingIOError:
                return
            for frame in self._reader.feed(data):
                self.watcher.take(frame)  # type: ignore[arg-type]

    def close(self) -> None:
        self._viewer.connection.close()
        self._socket.close()
        self.terminal.close()


def wait_equal_offsets(watchers: list, seconds: float = 60.0) -> None:
    """Until all have shown the same bytes, and nothing more came for a while."""
    deadline = time.monotonic() + seconds
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 0.4 or len({one.watcher.offset for one in watchers}) > 1:
        if time.monotonic() > deadline:
            raise TimeoutError(f"offsets: {[one.watcher.offset for one in watchers]}")
        received = [one.receive(0.05) for one in watchers]
        if any(received):
            quiet_since = time.monotonic()
