"""A log that a running process keeps open: found by its descriptors, read as the process has it.

Several processes may write to one file. It may have been renamed or deleted since it was opened; the path may mean
another file to a process in a container.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from corral.machine import procfs
from corral.machine.processes import Process

T = TypeVar("T")
_DELETED = " (deleted)"
_MOST_KEPT = 4


class OpenLog(NamedTuple):
    """A file that a process has open to append to it."""

    descriptor: int
    path: str
    position: int
    """Where its own last write ended."""

    @property
    def name(self) -> str:
        """Its path without what the kernel adds to that of a deleted file."""
        return self.path.removesuffix(_DELETED)


def find_open_log(process: Process, is_log: Callable[[str], bool]) -> OpenLog | None:
    """The first file that it appends to and does not read, and whose path `is_log`."""
    for number, path in process.descriptors():
        if not is_log(path):
            continue
        opened = procfs.read_descriptor(process.pid, number)
        if opened is not None and opened.flags & os.O_APPEND and opened.flags & os.O_ACCMODE == os.O_WRONLY:
            return OpenLog(number, path, opened.position)
    return None


class LogReader(Generic[T]):
    """Reads logs of a kind, each once for all processes that have it open."""

    def __init__(self, parse: Callable[[bytes], T], largest: int) -> None:
        self._parse = parse
        self._largest = largest
        self._parsed: dict[tuple[int, int, int, int], T] = {}
        """By device, inode, size and time of the last write."""

    def read(self, process: Process, log: OpenLog) -> tuple[T, os.stat_result] | str:
        """What it holds, with the file's status; or in words why that is not known."""
        try:
            fd = os.open(f"/proc/{process.pid}/fd/{log.descriptor}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            return f"its log can't be read: {error.strerror}"
        try:
            return self._read(process, log, fd)
        except OSError as error:
            return f"its log can't be read: {error.strerror}"
        finally:
            os.close(fd)

    def _read(self, process: Process, log: OpenLog, fd: int) -> tuple[T, os.stat_result] | str:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or not _means_the_same(process, log.path, status):
            return "its log is not a file of this home"
        if log.position > status.st_size:
            return "its log was cut off"
        if status.st_size > self._largest:
            return "its log is too large to be read"
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in self._parsed:
            parsed = self._parse(_read_bytes(fd, status.st_size))
            while len(self._parsed) >= _MOST_KEPT:
                self._parsed.pop(next(iter(self._parsed)))
            self._parsed[key] = parsed
        return self._parsed[key], status


def _means_the_same(process: Process, path: str, status: os.stat_result) -> bool:
    """Whether the path means to us what it means to the process; in a container it may be another's."""
    try:
        here = os.stat(path)
    except OSError:
        mine = procfs.read_namespace("self", "mnt")
        return mine is not None and procfs.read_namespace(process.pid, "mnt") == mine
    return (here.st_dev, here.st_ino) == (status.st_dev, status.st_ino)


def _read_bytes(fd: int, size: int) -> bytes:
    parts: list[bytes] = []
    offset = 0
    while offset < size and (part := os.pread(fd, min(size - offset, 1 << 20), offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
