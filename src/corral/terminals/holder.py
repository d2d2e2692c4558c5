"""The holder: one program on one PTY, any number of viewers on a Unix socket. Standard library only, few imports."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from select import POLLERR, POLLHUP, POLLIN, POLLOUT, poll
from socket import SO_PEERCRED, SOL_SOCKET, socket
from struct import unpack
from typing import TYPE_CHECKING

from corral.model import frames
from corral.sidecar.identity import ProcessIdentity
from corral.terminals.files import RECORD, SOCKET, TerminalFiles
from corral.terminals.queries import Unattended
from corral.terminals.stream import Stream
from corral.terminals.viewers import STALL_SECONDS, Audience, Viewer

if TYPE_CHECKING:
    from corral.terminals.hold import Child

RING_BYTES = 1 << 20
MOST_VIEWERS = 64
GREETING_SECONDS = 15.0
"""Whoever connects and does not greet is dropped then. A page has less time to say where it attaches."""
LINGER_SECONDS = 600.0
"""How long the last words of a program that ended can be looked at."""
_GRACE_SECONDS = 1.0
"""Whoever has just connected may be about to greet: a server that restarts brings many viewers at once."""
_MOST_SILENT = 16
"""Viewers that have not greeted. A new one takes the place of the oldest, so there is always room."""
_MOST_INPUT = 1 << 20
_READ = 1 << 16
_TERMINAL_READ = 1 << 13
"""The kernel gives 4 KiB at most; memory for more would be asked for and given back each time."""
_FULL_READ = 4095
_READS = 16
_RETRY_EXIT_SECONDS = 30.0
_HOUR = 3600.0
STEP_SECONDS = 5.0
_REST_SECONDS = 1.0
_STEPS = (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)


class Holder:
    """Runs until its program has ended and somebody has seen that, or nobody came in ten minutes."""

    def __init__(
        self,
        tab: str,
        files: TerminalFiles,
        server: socket,
        child: Child,
        identity: ProcessIdentity,
        size: tuple[int, int],
    ) -> None:
        self.tab = tab
        self.child = child
        self.identity = identity
        self.size = size
        self.started_at = time.time()
        self.stream = Stream(RING_BYTES, size, files.log)
        self.status: int | None = None
        self.ending = Ending(child, files.log)
        self._files = files
        self._listener = Listener(server, files.log)
        self._audience = Audience(self)
        self._unattended = Unattended()
        self._input = bytearray()
        self._is_open = True
        """Whether anybody has the other side of the terminal open."""
        self._exit_written = False
        self._ended_at = 0.0
        self._poll = poll()
        self._events: dict[int, int] = {}

    def run(self) -> None:
        self._watch(self.child.pidfd, POLLIN)
        while not self._is_done():
            now = time.monotonic()
            paused = self._choose_events(now)
            for fd, event in self._poll.poll(self._timeout(now, paused) * 1000):
                self._handle(fd, event)
            self._run_timers(time.monotonic())
        self._files.log("the holder ends")
        self._files.remove(SOCKET, RECORD)

    def take_input(self, data: bytes) -> frames.Failed | None:
        """Pass input to the program. If it is refused, none of it is passed."""
        if self.status is not None or not self._is_open:
            return frames.Failed("ended", "the program has ended")
        if len(self._input) + len(data) > _MOST_INPUT:
            return frames.Failed("input_full", f"the program does not read: {len(data)} bytes were not taken")
        self._input += data
        self._write_input()
        return None

    def set_size(self, size: tuple[int, int]) -> None:
        """It holds from the next byte that is read."""
        self.size = size
        self.stream.resize(*size)
        if self._is_open:
            try:
                self.child.set_size(*size)
            except OSError as error:
                self._files.log(f"the size could not be set: {error.strerror}")

    # --- what to wait for

    def _choose_events(self, now: float) -> bool:
        """Register what to wait for now. Returns whether the program is held back."""
        paused = False
        self._watch(self._listener.fileno(), POLLIN if now >= self._listener.rests_until else 0)
        for viewer in self._audience.viewers.values():
            paused |= viewer.holds_back(self.stream.ring, now)
            writing = viewer.wants_to_write(self.stream.ring, self.status is not None)
            self._watch(viewer.fd, POLLIN | (POLLOUT if writing else 0))
        if self._is_open:
            self._watch(self.child.master, (0 if paused else POLLIN) | (POLLOUT if self._input else 0))
        return paused

    def _watch(self, fd: int, events: int) -> None:
        if self._events.get(fd) != events:
            self._poll.register(fd, events)
            self._events[fd] = events

    def _unwatch(self, fd: int) -> None:
        if self._events.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _timeout(self, now: float, paused: bool) -> float:
        silent = [viewer.came_at for viewer in self._audience.viewers.values() if not viewer.version]
        waits = [min(silent) + GREETING_SECONDS - now] if silent else []
        waits += [STALL_SECONDS / 4] if paused or now < self._listener.rests_until else []
        if self.ending.due is not None:
            waits.append(self.ending.due - now)
        if self.status is not None:
            waits.append(min(_RETRY_EXIT_SECONDS, self._ended_at + LINGER_SECONDS - now))
        return max(0.0, min(waits, default=_HOUR))

    def _is_done(self) -> bool:
        if self.status is None:
            return False
        return self._audience.has_left_knowing or time.monotonic() > self._ended_at + LINGER_SECONDS

    def _run_timers(self, now: float) -> None:
        self.ending.advance(now)
        for viewer in self._audience.silent(now - GREETING_SECONDS):
            self._let_go(viewer)
        if self.status is not None and not self._exit_written:
            self._exit_written = self._files.write_exit(self.identity, self.status, time.time())

    # --- what has happened

    def _handle(self, fd: int, event: int) -> None:
        if fd == self.child.master:
            if event & POLLOUT:
                self._write_input()
            if event & (POLLIN | POLLHUP | POLLERR):
                self._read_output()
        elif fd == self.child.pidfd:
            self._note_exit()
        elif fd == self._listener.fileno():
            self._admit()
        elif (viewer := self._audience.viewers.get(fd)) is not None:
            if event & (POLLIN | POLLHUP | POLLERR):
                self._audience.hear(viewer)
            if not viewer.broken:
                self._audience.pump(viewer)
            if viewer.broken:
                self._let_go(viewer)

    def _let_go(self, viewer: Viewer) -> None:
        self._unwatch(viewer.fd)
        self._audience.drop(viewer)

    def _admit(self) -> None:
        connection = self._listener.accept()
        if connection is None:
            return
        viewer = Viewer(connection, time.monotonic())
        patient = self._audience.silent(viewer.came_at - _GRACE_SECONDS)
        if len(patient) >= _MOST_SILENT:
            self._let_go(patient[0])
        elif len(self._audience.viewers) >= MOST_VIEWERS and (silent := self._audience.silent(viewer.came_at)):
            self._let_go(silent[0])
        if len(self._audience.viewers) < MOST_VIEWERS:
            self._audience.viewers[viewer.fd] = viewer
            return
        viewer.send(frames.Failed("too_many_viewers", f"this terminal has {MOST_VIEWERS} viewers"))
        self._audience.pump(viewer)
        connection.close()

    def _read_output(self) -> None:
        parts: list[bytes] = []
        for _ in range(_READS):
            try:
                part = os.read(self.child.master, _TERMINAL_READ)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EIO:  # EIO: nobody has the other side open any more
                    self._files.log(f"reading the terminal failed: {error.strerror}")
                part = b""
            if not part:
                self._is_open = False
                self._unwatch(self.child.master)
                break
            parts.append(part)
            if len(part) < _FULL_READ:
                break  # that was all there is: asking once more would only delay it
        if parts:
            data = b"".join(parts)
            self.stream.feed(data)
            self._answer_for_nobody(data)
            self._audience.pump_all()

    def _answer_for_nobody(self, data: bytes) -> None:
        if self._audience.has_listener:
            self._unattended.forget()
        elif answers := self._unattended.answer(data, self.size[1]):
            self.take_input(answers)

    def _write_input(self) -> None:
        try:
            while self._input:
                written = os.write(self.child.master, self._input[:_READ])
                del self._input[:written]
        except BlockingIOError:
            pass  # the rest goes when the terminal takes more
        except OSError as error:
            self._files.log(f"{len(self._input)} bytes of input were not taken: {error.strerror}")
            self._input.clear()

    def _note_exit(self) -> None:
        status = self.child.reap()
        if status is None:
            return
        self._unwatch(self.child.pidfd)
        # What it wrote last is still in the terminal. Others may go on writing, so read no more than the ring takes.
        end = self.stream.ring.head + RING_BYTES
        before = -1
        while self._is_open and before < self.stream.ring.head < end:
            before = self.stream.ring.head
            self._read_output()
        self._unwatch(self.child.master)
        self._is_open = False
        self._input.clear()
        self.ending.cancel()
        self.status, self._ended_at = status, time.monotonic()
        self._files.log(f"the program ended with {status}")
        self._exit_written = self._files.write_exit(self.identity, status, time.time())
        self._audience.pump_all()


class Ending:
    """Ends a program: hang up, ask, force; each step only if the one before did not help.

    Begun once; `due` says when the next step is to be taken.
    """

    def __init__(self, child: Child, log: Callable[[str], None]) -> None:
        self._child = child
        self._log = log
        self._left = list(_STEPS)
        self.due: float | None = None
        """On the monotonic clock; None before it was asked for, and after the last step."""

    def begin(self, now: float) -> None:
        if self.due is None and len(self._left) == len(_STEPS):
            self._log("asked to end the program")
            self.due = now
            self.advance(now)

    def advance(self, now: float) -> None:
        """Take the next step if it is time."""
        if self.due is None or now < self.due:
            return
        number = self._left.pop(0)
        # Through the pidfd of a child that was not reaped: it can reach nobody else.
        sent = self._child.signal(number)
        if sent and number is signal.SIGHUP:
            self._child.signal(signal.SIGCONT)  # one that is stopped could not end
        self._log(f"{number.name} {'sent' if sent else 'came too late'}")
        self.due = now + STEP_SECONDS if sent and self._left else None

    def cancel(self) -> None:
        """The program has ended."""
        self.due = None


class Listener:
    """Accepts connections of this user and closes all others."""

    def __init__(self, server: socket, log: Callable[[str], None]) -> None:
        self._server = server
        self._log = log
        self._spare = _open_spare()
        self.rests_until = 0.0
        """On the monotonic clock: until then, waiting for connections is pointless."""

    def fileno(self) -> int:
        return self._server.fileno()

    def accept(self) -> socket | None:
        """The next connection; None when there is none."""
        try:
            connection, _ = self._server.accept()
        except BlockingIOError:
            return None
        except OSError as error:
            self._turn_away(error)
            return None
        _, uid, _ = unpack("3i", connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))
        if uid != os.getuid():
            self._log(f"a connection of user {uid} was refused")
            connection.close()
            return None
        connection.setblocking(False)
        return connection

    def _turn_away(self, error: OSError) -> None:
        """Out of descriptors: the spare one lets us close the connection, which would else wake us for ever."""
        self._log(f"a connection could not be accepted: {error.strerror}")
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            return
        if self._spare is not None:
            os.close(self._spare)
        try:
            self._server.accept()[0].close()
        except BlockingIOError:
            pass  # the other side has left
        except OSError:
            self.rests_until = time.monotonic() + _REST_SECONDS
        self._spare = _open_spare()


def _open_spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
