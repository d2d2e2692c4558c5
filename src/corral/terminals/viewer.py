"""One viewer as its holder sees it: where it is in the output, what waits to be sent. Standard library only.

No output is queued for a viewer: it has a position in the ring, and one that falls out of the ring gets a gap.
So a viewer that never reads costs the holder one frame of memory.
"""

from __future__ import annotations

from corral.terminals.protocol import MAX_INPUT, Exit, FrameReader, Gap, Modes, Output, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

    from corral.terminals.protocol import HolderFrame
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
        self.greeted = False
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
        self.wants_repaint = False
        """A gap was sent: the program should paint anew."""
        self._pending = b""
        self._replay_end = 0
        self._after_replay = b""
        self._moved_at = now

    def send(self, frame: HolderFrame) -> None:
        self._pending += encode(frame)
        if len(self._pending) > _MOST_PENDING:
            self.broken = True  # it asks and never listens

    def begin(self, beginning: Beginning, head: int, now: float) -> None:
        """Output from there on; up to `head` it is a replay."""
        self._moved_at = now
        self.position = beginning.offset
        self._replay_end = head
        self._after_replay = beginning.after
        if beginning.before:
            self.send(Modes(beginning.before))

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
        return self.position is not None and (self.position < ring.head or (exited and not self.told_exit))

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
        if self.position < ring.oldest:
            self._skip(stream)
        elif self._after_replay and self.position >= self._replay_end:
            after, self._after_replay = self._after_replay, b""
            self.send(Modes(after))
        elif self.position < ring.head:
            replay = self.position < self._replay_end
            limit = min(CHUNK, self._replay_end - self.position) if replay else CHUNK
            data = ring.read(self.position, limit)
            self._pending = encode(Output(self.position, data, replay))
            self.position += len(data)
        elif status is not None and not self.told_exit:
            self.told_exit = True
            self.send(Exit(status))
        return bool(self._pending)

    def _skip(self, stream: Stream) -> None:
        """What it has not seen has left the ring: it goes on like one that has seen nothing."""
        beginning = stream.plan_beginning(None)
        self.send(Gap(self.position or 0, beginning.offset))
        self.begin(beginning, stream.ring.head, self._moved_at)
        self.wants_repaint = True
