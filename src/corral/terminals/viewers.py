"""The viewers of one terminal as its holder sees them: what each has seen and asks for, whose size counts, whose
answers are heard. Standard library only.

No output is queued for a viewer: it has a position in the ring, and one that falls out of the ring gets a gap.
So a viewer that never reads costs the holder one frame of memory.
"""

from __future__ import annotations

import os
import time
from socket import socket
from typing import TYPE_CHECKING

from corral.model import frames
from corral.terminals.protocol import FrameReader, choose_version, encode
from corral.terminals.queries import strip_answers
from corral.terminals.stream import Beginning, Ring, Stream

if TYPE_CHECKING:
    from corral.terminals.holder import Holder

CHUNK = 1 << 16
"""Bytes of output in one frame."""
HIGH = 1 << 18
"""A viewer that somebody sees may be this far behind before the program is held back."""
LOW = 1 << 16
STALL_SECONDS = 2.0
"""A viewer that took nothing for so long does not hold the program back until it has caught up."""
_MOST_PENDING = 1 << 18
_LARGEST_SIZE = 4096
_READ = 1 << 16


class Viewer:
    """The holder's side of one connection."""

    def __init__(self, connection: socket, now: float) -> None:
        self.connection = connection
        self.fd = connection.fileno()
        self.reader = FrameReader(frames.MAX_INPUT + 64)
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
        """It has a size of its own: it gets a picture whenever the terminal's size changes."""
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

    def send(self, frame: frames.HolderFrame) -> None:
        self._pending += encode(frame)
        if len(self._pending) > _MOST_PENDING:
            self.broken = True  # it asks and never listens

    def attach(self, wanted: int | None, stream: Stream, now: float) -> Beginning:
        """Start to send: output from `wanted` on, or (None) what brings a fresh terminal to what is shown."""
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
            self.send(frames.Size(change.columns, change.rows))
        elif self.position < ring.head:
            replay = self.position < self._replay_end
            end = min(ring.head, self._replay_end) if replay else ring.head
            if change is not None:
                end = min(end, change.offset)
            data = ring.read(self.position, min(CHUNK, end - self.position))
            self._pending = encode(frames.Output(self.position, data, replay))
            self.position += len(data)
        elif status is not None and not self.told_exit:
            self.told_exit = True
            self.send(frames.Exit(status))
        return bool(self._pending)

    def _send_picture(self) -> None:
        data, self._picture = self._picture[:CHUNK], self._picture[CHUNK:]
        self.send(frames.Modes(data) if self.version == 1 else frames.Picture(data, self._begins_picture))
        self._begins_picture = False

    def _paint(self, stream: Stream) -> None:
        """Send a new picture. It contains what was not sent yet."""
        change = self._change
        self._begin_afresh(stream, self._moved_at)
        if change < self._change:
            self.send(frames.Size(*stream.sizes.latest[1:]))
        if self._picture:
            self._send_picture()

    def _skip(self, stream: Stream) -> None:
        """What it has not seen has left the ring: go on as if it had seen nothing."""
        position = self.position or 0
        beginning = self._begin_afresh(stream, self._moved_at)
        self.send(frames.Gap(position, beginning.offset))
        self.send(frames.Size(*beginning.size))


class Audience:
    """The viewers by their descriptors. It obeys their frames on behalf of the holder."""

    def __init__(self, holder: Holder) -> None:
        self.viewers: dict[int, Viewer] = {}
        self._holder = holder
        self._activity = 0
        self._somebody_knows = False
        self._dismissed = False

    @property
    def has_left_knowing(self) -> bool:
        """Whether somebody has seen how the program ended and all viewers have left, or a viewer said Leave."""
        return self._dismissed or (self._somebody_knows and not self.viewers)

    @property
    def has_listener(self) -> bool:
        """Whether anybody sees what the program writes now, and can answer it."""
        return any(viewer.position is not None for viewer in self.viewers.values())

    def pump(self, viewer: Viewer) -> None:
        viewer.pump(self._holder.stream, self._holder.status, time.monotonic())

    def pump_all(self) -> None:
        for viewer in self.viewers.values():
            self.pump(viewer)

    def silent(self, until: float) -> list[Viewer]:
        """Viewers that connected before then and have not greeted, the oldest first."""
        return [viewer for viewer in self.viewers.values() if not viewer.version and viewer.came_at <= until]

    def drop(self, viewer: Viewer) -> None:
        del self.viewers[viewer.fd]
        viewer.connection.close()
        self._somebody_knows |= viewer.told_exit
        self._follow_last_active()

    def hear(self, viewer: Viewer) -> None:
        """Read what it has sent and obey it."""
        try:
            data = viewer.connection.recv(_READ)
            viewer.broken |= not data
            for frame in viewer.reader.feed(data):
                self._obey(viewer, frame)
        except BlockingIOError:
            return
        except frames.ProtocolError as error:
            self._refuse(viewer, frames.Failed("frame", str(error)))
        except OSError:
            viewer.broken = True

    def _obey(self, viewer: Viewer, frame: frames.Frame) -> None:
        if not viewer.version:
            self._greet(viewer, frame)
            return
        match frame:
            case frames.Attach():
                self._attach(viewer, frame)
            case frames.Input():
                self._type(viewer, frame)
            case frames.Resize():
                viewer.columns, viewer.rows = frame
                viewer.wants_picture = (
                    viewer.paints
                )  # a terminal that changes its size moves what it shows, in its own way
                self._activate(viewer)
            case frames.Visible():
                viewer.visible = frame.visible
            case frames.Ask():
                viewer.send(frames.Info(self._describe()))
            case frames.End():
                self._holder.ending.begin(time.monotonic())
            case frames.Leave():
                self._dismissed |= self._holder.status is not None
            case _:
                pass  # a newer viewer's

    def _greet(self, viewer: Viewer, frame: frames.Frame) -> None:
        if not isinstance(frame, frames.Hello):
            raise frames.ProtocolError("the first frame must be a hello")
        version = choose_version(frame)
        if version is None:
            lowest, highest = frames.VERSIONS
            self._refuse(viewer, frames.Failed("version", f"this holder speaks versions {lowest} to {highest}"))
            return
        viewer.version = version
        viewer.send(frames.Welcome(version, self._holder.tab))

    def _refuse(self, viewer: Viewer, failed: frames.Failed) -> None:
        viewer.send(failed)
        self.pump(viewer)
        viewer.broken = True

    def _attach(self, viewer: Viewer, frame: frames.Attach) -> None:
        viewer.visible = frame.visible
        viewer.columns, viewer.rows = frame.columns, frame.rows
        viewer.paints = frame.picture and viewer.version > 1
        if frame.visible and frame.columns and frame.rows:
            self._activate(viewer)
        stream = self._holder.stream
        beginning = viewer.attach(frame.offset, stream, time.monotonic())
        viewer.send(frames.Attached(beginning.offset, stream.ring.oldest, stream.ring.head, *beginning.size))

    def _type(self, viewer: Viewer, frame: frames.Input) -> None:
        if viewer.position is None:
            viewer.send(frames.Failed("not_attached", "attach before typing"))
            return
        if len(frame.data) > frames.MAX_INPUT:
            problem = f"more than {frames.MAX_INPUT} bytes of input in one frame: none was taken"
            viewer.send(frames.Failed("frame", problem))
            return
        # Answers to a program's queries count from the viewer that leads, and from none during its replay.
        typed = strip_answers(frame.data)
        leads = viewer.active == self._activity
        if typed:
            self._activate(viewer)
        data = frame.data if leads and not frame.in_replay else typed
        failed = self._holder.take_input(data) if data else None
        if failed is not None:
            viewer.send(failed)

    def _activate(self, viewer: Viewer) -> None:
        if not viewer.active or viewer.active != self._activity:
            self._activity += 1
            viewer.active = self._activity
        self._follow_last_active()

    def _follow_last_active(self) -> None:
        """The size is that of the viewer that typed, came or changed its own last."""
        sized = [viewer for viewer in self.viewers.values() if viewer.active and viewer.columns and viewer.rows]
        if not sized:
            return
        leader = max(sized, key=lambda viewer: viewer.active)
        self._activity = max(viewer.active for viewer in self.viewers.values())
        size = min(leader.columns, _LARGEST_SIZE), min(leader.rows, _LARGEST_SIZE)
        if size != self._holder.size:
            self._holder.set_size(size)
            for viewer in self.viewers.values():
                viewer.wants_picture = viewer.paints
            self.pump_all()

    def _describe(self) -> dict[str, str]:
        holder = self._holder
        boot_id, pid_ns, pid, start_ticks = holder.identity
        return {
            "tab": holder.tab,
            "holder_pid": str(os.getpid()),
            "pid": str(pid),
            "start_ticks": str(start_ticks),
            "boot_id": boot_id,
            "pid_ns": str(pid_ns),
            "started_at": f"{holder.started_at:.3f}",
            "title": holder.stream.modes.title,
            "columns": str(holder.size[0]),
            "rows": str(holder.size[1]),
            "viewers": str(sum(viewer.position is not None for viewer in self.viewers.values())),
            "alternate": "1" if holder.stream.modes.alternate else "0",
            "oldest": str(holder.stream.ring.oldest),
            "head": str(holder.stream.ring.head),
            "status": "" if holder.status is None else str(holder.status),
        }
