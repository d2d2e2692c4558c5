"""All viewers of one terminal: what they ask for, whose size counts, whose answers are heard. Standard library only."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from corral.model.frames import (
    MAX_INPUT,
    VERSIONS,
    Ask,
    Attach,
    Attached,
    End,
    Failed,
    Hello,
    Info,
    Input,
    Leave,
    ProtocolError,
    Resize,
    Visible,
    Welcome,
)
from corral.terminals.protocol import choose_version
from corral.terminals.queries import strip_answers
from corral.terminals.viewer import Viewer

if TYPE_CHECKING:
    from corral.model.frames import Frame
    from corral.terminals.holder import Holder

_LARGEST_SIZE = 4096
_READ = 1 << 16


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
        """Whether nobody looks any more, and somebody who did was told how the program ended; or said: leave."""
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
        """Those who came before that time and have not said a word, the oldest first."""
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
        except ProtocolError as error:
            self._refuse(viewer, Failed("frame", str(error)))
        except OSError:
            viewer.broken = True

    def _obey(self, viewer: Viewer, frame: Frame) -> None:
        if not viewer.version:
            self._greet(viewer, frame)
            return
        match frame:
            case Attach():
                self._attach(viewer, frame)
            case Input():
                self._type(viewer, frame)
            case Resize():
                viewer.columns, viewer.rows = frame
                viewer.wants_picture = (
                    viewer.paints
                )  # a terminal that changes its size moves what it shows, in its own way
                self._activate(viewer)
            case Visible():
                viewer.visible = frame.visible
            case Ask():
                viewer.send(Info(self._describe()))
            case End():
                self._holder.ending.begin(time.monotonic())
            case Leave():
                self._dismissed |= self._holder.status is not None
            case _:
                pass  # a newer viewer's

    def _greet(self, viewer: Viewer, frame: Frame) -> None:
        if not isinstance(frame, Hello):
            raise ProtocolError("the first frame must be a hello")
        version = choose_version(frame)
        if version is None:
            self._refuse(viewer, Failed("version", f"this holder speaks versions {VERSIONS[0]} to {VERSIONS[1]}"))
            return
        viewer.version = version
        viewer.send(Welcome(version, self._holder.tab))

    def _refuse(self, viewer: Viewer, failed: Failed) -> None:
        viewer.send(failed)
        self.pump(viewer)
        viewer.broken = True

    def _attach(self, viewer: Viewer, frame: Attach) -> None:
        viewer.visible = frame.visible
        viewer.columns, viewer.rows = frame.columns, frame.rows
        viewer.paints = frame.picture and viewer.version > 1
        if frame.visible and frame.columns and frame.rows:
            self._activate(viewer)
        stream = self._holder.stream
        beginning = viewer.attach(frame.offset, stream, time.monotonic())
        viewer.send(Attached(beginning.offset, stream.ring.oldest, stream.ring.head, *beginning.size))

    def _type(self, viewer: Viewer, frame: Input) -> None:
        if viewer.position is None:
            viewer.send(Failed("not_attached", "attach before typing"))
            return
        if len(frame.data) > MAX_INPUT:
            viewer.send(Failed("frame", f"more than {MAX_INPUT} bytes of input in one frame: none was taken"))
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
