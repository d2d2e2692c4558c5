"""Being told of changes in directories: one inotify instance, directories only, and nothing lost without a word.

Written out here, as the usual library wakes up twenty times a second while nothing happens, watches whole trees
and does not say when the kernel dropped events (docs/decisions/012-server.md).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import NamedTuple

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES, _IS_DIRECTORY = 0x4000, 0x8000, 0x0100_0000, 0x4000_0000
_MASK = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLY_DIRECTORIES
_HEAD = struct.Struct("iIII")
_READ = 1 << 16


class NoWatching(Exception):
    """The system does not tell of changes, or of no more directories than it does already; and why."""


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
