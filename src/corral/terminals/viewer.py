"""One viewer as its holder sees it: where it is in the output, what waits to be sent. Standard library only.

No output is queued for a viewer: it has a position in the ring, and one that falls out of the ring gets a gap.
So a viewer that never reads costs the holder one frame of memory.
"""

from __future__ import annotations

from socket import socket

from corral.model.frames import MAX_INPUT, Exit, Gap, HolderFrame, Modes, Output, Picture, Size
from corral.terminals.protocol import FrameReader, encode
from corral.terminals.ring import Ring
from corral.terminals.stream import Beginning, Stream

CHUNK = 1 << 16
"""Bytes of output in one frame."""
HIGH = 1 << 18
"""A viewer that somebody sees may be this far behind before the program is held back."""
LOW = 1 << 16
STALL_SECONDS = 2.0
"""One that took nothing for so long holds nobody back any more, until it has caught up."""
_MOST_PENDING = 1 << 18


class Viewer:
    """The holder's side of one connection."""

    def __init__(self, connection: socket, now: float) -> None:
        self.connection = connection
        self.fd = connection.fileno()
        self.reader = FrameReader(MAX_INPUT + 64)
        self.version = 0
        """Of the protocol; 0 before it has greeted."""
        self.came_at = now
        self.position: int | None = None
        """The offset of the next byte for it; None before it attached."""
        self.visible = False
        self.columns = 0
        self.rows = 0
        self.active = 0
        """Greater than that of viewers that were active earlier; 0 before it was."""
        self.stalled = False
        self.told_exit = False
        self.broken = False
        """To be dropped."""
        self.paints = False
        """It can't take on another size: it gets a picture whenever the size changes."""
        self.wants_picture = False
        self._pending = b""
        self._replay_end = 0
        self._change = 0
        """The number of the next change of size for it."""
        self._picture = b""
        """What is still to be sent of one."""
        self._begins_picture = False
        self._owes_normal = False
        """It was shown a program's own screen, and not the normal one below."""
        self._moved_at = now

    def send(self, frame: HolderFrame) -> None:
        self._pending += encode(frame)
        if len(self._pending) > _MOST_PENDING:
            self.broken = True  # it asks and never listens

    def attach(self, wanted: int | None, stream: Stream, now: float) -> Beginning:
        """Output from there on, or None: what brings a fresh terminal to what is shown."""
        if wanted is not None and wanted <= stream.ring.head:
            beginning = stream.begin(wanted)
            self._begin(beginning, stream.ring.head, now)
            return beginning
        return self._begin_afresh(stream, now)

    def _begin_afresh(self, stream: Stream, now: float) -> Beginning:
        if self.paints:
            beginning = stream.begin_now(whole=False, history=self.position is None)
            self._owes_normal = bool(stream.modes.alternate)
        elif self.version == 1:  # it may be of either kind, and applies sizes out of turn
            beginning = stream.begin_now(whole=True, history=True)
        else:
            beginning = stream.begin(None)
        self._begin(beginning, stream.ring.head, now)
        return beginning

    def _begin(self, beginning: Beginning, head: int, now: float) -> None:
        """From there on; up to `head` it is a replay."""
        self._moved_at = now
        self.position = beginning.offset
        self.wants_picture = False
        self._change = beginning.change
        self._replay_end = head
        self._picture = beginning.picture
        self._begins_picture = True

    def lag_bytes(self, ring: Ring) -> int:
        return 0 if self.position is None else ring.head - self.position

    def holds_back(self, ring: Ring, now: float) -> bool:
        """Whether the program has to wait for it."""
        lag = self.lag_bytes(ring)
        if lag <= LOW:
            self.stalled = False
        if lag <= HIGH or not self.visible or self.stalled:
            return False
        self.stalled = now - self._moved_at > STALL_SECONDS
        return not self.stalled

    def wants_to_write(self, ring: Ring, exited: bool) -> bool:
        if self._pending:
            return True
        if self.position is None:
            return False
        return bool(self._picture) or self.position < ring.head or (exited and not self.told_exit)

    def pump(self, stream: Stream, status: int | None, now: float) -> None:
        """Send as much as the connection takes."""
        while not self.broken:
            if not self._pending and not self._next(stream, status):
                return
            try:
                sent = self.connection.send(self._pending)
            except BlockingIOError:
                return
            except OSError:
                self.broken = True
                return
            self._moved_at = now
            self._pending = self._pending[sent:]

    def _next(self, stream: Stream, status: int | None) -> bool:
        """Make the next frame; False when there is nothing to say."""
        if self.position is None:
            return False
        ring = stream.ring
        if self._picture:
            self._send_picture()
        elif self.paints and (self.wants_picture or (self._owes_normal and not stream.modes.alternate)):
            self._paint(stream)
        elif self.position < ring.oldest or self._change < stream.sizes.first:
            self._skip(stream)
        elif (change := stream.sizes.find(self._change)) is not None and change.offset <= self.position:
            self._change += 1
            self.send(Size(change.columns, change.rows))
        elif self.position < ring.head:
            replay = self.position < self._replay_end
            end = min(ring.head, self._replay_end) if replay else ring.head
            if change is not None:
                end = min(end, change.offset)
            data = ring.read(self.position, min(CHUNK, end - self.position))
            self._pending = encode(Output(self.position, data, replay))
            self.position += len(data)
        elif status is not None and not self.told_exit:
            self.told_exit = True
            self.send(Exit(status))
        return bool(self._pending)

    def _send_picture(self) -> None:
        data, self._picture = self._picture[:CHUNK], self._picture[CHUNK:]
        self.send(Modes(data) if self.version == 1 else Picture(data, self._begins_picture))
        self._begins_picture = False

    def _paint(self, stream: Stream) -> None:
        """All of it as it is now: what was not sent yet is in it."""
        change = self._change
        self._begin_afresh(stream, self._moved_at)
        if change < self._change:
            self.send(Size(*stream.sizes.latest[1:]))
        if self._picture:
            self._send_picture()

    def _skip(self, stream: Stream) -> None:
        """What it has not seen has left the ring: it goes on like one that has seen nothing."""
        position = self.position or 0
        beginning = self._begin_afresh(stream, self._moved_at)
        self.send(Gap(position, beginning.offset))
        self.send(Size(*beginning.size))
