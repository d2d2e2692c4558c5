"""Watching for changes: in directories by inotify, of a process that ends by its pidfd, of new ones by a list.

inotify is written out here: the usual library wakes up twenty times a second while nothing happens, watches whole
trees, and does not say when the kernel dropped events (docs/decisions/012-server.md).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
import time
from collections.abc import Collection
from typing import NamedTuple

from corral.machine import procfs
from corral.machine.processes import Process, ProcessTable
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES, _IS_DIRECTORY = 0x4000, 0x8000, 0x0100_0000, 0x4000_0000
_MASK = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLY_DIRECTORIES
_HEAD = struct.Struct("iIII")
_READ = 1 << 16


class NoWatching(Exception):
    """The system reports no changes, or no more directories can be watched; and why."""


class Change(NamedTuple):
    """Something happened to `name` in `directory`; an empty name means the directory itself."""

    directory: str
    name: str
    is_new_directory: bool


class Overflow(NamedTuple):
    """The kernel dropped events: look at everything."""


class DirectoryWatch:
    """Directories that are watched, each once. Raises NoWatching where there is no inotify or none is left."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise NoWatching("this system has no inotify")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise NoWatching(f"no inotify instance is left: {os.strerror(ctypes.get_errno())}")
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, path: str) -> bool:
        """Watch one more; False when it is not (or no longer) a directory that we may read."""
        if path in self._numbers:
            return True
        number: int = self._libc.inotify_add_watch(self.fd, os.fsencode(path), _MASK)
        if number < 0:
            problem = ctypes.get_errno()
            if problem in (errno.ENOSPC, errno.ENOMEM):
                raise NoWatching(f"no watch is left after {len(self)} directories (fs.inotify.max_user_watches)")
            return False
        if number in self._paths:  # the same directory by another name
            self._numbers.pop(self._paths[number], None)
        self._paths[number] = path
        self._numbers[path] = number
        return True

    def read(self) -> list[Change | Overflow]:
        """What happened since the last call; never blocks."""
        found: list[Change | Overflow] = []
        while True:
            try:
                data = os.read(self.fd, _READ)
            except BlockingIOError:
                return found
            position = 0
            while position < len(data):
                number, mask, _, length = _HEAD.unpack_from(data, position)
                position += _HEAD.size
                name = os.fsdecode(data[position : position + length].rstrip(b"\0"))
                position += length
                if mask & _OVERFLOW:
                    found.append(Overflow())
                elif (path := self._paths.get(number)) is not None:
                    is_new = bool(mask & _IS_DIRECTORY and mask & (_CREATE | _MOVED_TO))
                    found.append(Change(path, name, is_new))
                    if mask & (_IGNORED | _MOVE_SELF):
                        self._forget(number, removed=bool(mask & _IGNORED))

    def close(self) -> None:
        os.close(self.fd)

    def _forget(self, number: int, *, removed: bool) -> None:
        """It was deleted, or moved away: its path may be another directory from now on."""
        path = self._paths.pop(number, None)
        if path is not None:
            self._numbers.pop(path, None)
        if not removed:
            self._libc.inotify_rm_watch(self.fd, number)


# --- processes


_LOOK_SECONDS = 0.4
_REST = 200.0
"""After a look comes a pause this many times as long: it costs half a percent of a core at most."""
_YOUNG_SECONDS = 4.0
"""How long a new process is looked at again: a launcher becomes the agent by exec, with the same PID."""


class NewProcesses:
    """Processes that have begun since the last look. No kernel reports them to an ordinary user: lists are compared.

    A process that becomes an agent when it is old is not seen here.
    """

    def __init__(self) -> None:
        self.due = 0.0
        """When to look next, on the monotonic clock."""
        self._known = set(procfs.list_pids())
        self._young: dict[str, float] = {}
        """New ones, and until when they count as new."""

    def look(self) -> ProcessTable | None:
        """The new processes and those that were new a moment ago; None when there are none."""
        begun = time.monotonic()
        names = set(procfs.list_pids())
        for name in names - self._known:
            self._young[name] = begun + _YOUNG_SECONDS
        self._known = names
        self._young = {name: until for name, until in self._young.items() if name in names and until > begun}
        table = ProcessTable(self._young) if self._young else None
        ended = time.monotonic()
        self.due = ended + max(_LOOK_SECONDS, _REST * (ended - begun))
        return table

    def settle(self, process: Process) -> None:
        """It is known what this one is: it need not be looked at again."""
        self._young.pop(str(process.pid), None)


class ExitWatch:
    """The ends of some processes, each held by a pidfd, so that the kernel reports it. For one thread.

    Where there are no pidfds, or no descriptors left, nothing is reported.
    """

    def __init__(self) -> None:
        self._held: dict[ProcessIdentity, int] = {}

    @property
    def fds(self) -> Collection[int]:
        """What to poll: readable when one has ended."""
        return self._held.values()

    def follow(self, wanted: Collection[ProcessIdentity]) -> bool:
        """These and no others from now on. True when one of them has ended already."""
        for identity in [one for one in self._held if one not in wanted]:
            os.close(self._held.pop(identity))
        missed = False
        for identity in wanted:
            if identity in self._held or not hasattr(os, "pidfd_open"):
                continue
            try:
                fd = os.pidfd_open(identity.pid)
            except ProcessLookupError:
                missed = True
                continue
            except OSError:
                continue
            if read_identity(identity.pid) == identity:
                self._held[identity] = fd
            else:
                os.close(fd)
                missed = True
        return missed

    def take(self, ready: Collection[int]) -> bool:
        """Whether one of them has ended, by what the poll gave; it is not followed any more."""
        ended = [identity for identity, fd in self._held.items() if fd in ready]
        for identity in ended:
            os.close(self._held.pop(identity))
        return bool(ended)
