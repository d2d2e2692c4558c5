"""The process table: every process once, read from /proc as far as asked for; and what a process means by a path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from corral.machine import procfs
from corral.machine.host import boot_clock_offset, read_comparable_boot_id
from corral.model.process import DirectoryId
from corral.sidecar.identity import ProcessIdentity


class Process:
    """One process as /proc showed it. Details that may not be read are empty or None, never an exception."""

    def __init__(self, table: ProcessTable, pid: int, stat: procfs.Stat) -> None:
        self._table = table
        self.pid = pid
        self.comm = os.fsdecode(stat.comm)
        self.state = stat.state
        self.parent_pid = stat.parent_pid
        self.terminal_number = stat.terminal_number
        self.is_kernel = stat.is_kernel
        self.is_copy = stat.is_copy
        self.start_ticks = stat.start_ticks

    @property
    def started_at(self) -> float:
        """Epoch seconds, through CLOCK_BOOTTIME."""
        return self._table.boot_offset + self.start_ticks / procfs.TICKS_PER_SECOND

    @cached_property
    def identity(self) -> ProcessIdentity:
        """Its PID namespace is 0 when it can't be read: another user's process in a container. No claim names that."""
        pid_ns = procfs.read_pid_namespace(self.pid)
        return ProcessIdentity(self._table.boot_id or "", pid_ns or 0, self.pid, self.start_ticks)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        return tuple(os.fsdecode(word) for word in self._read("cmdline").rstrip(b"\0").split(b"\0") if word)

    @cached_property
    def environ(self) -> dict[str, str]:
        """Empty when it may not be read or was wiped (kimi-cli 1.51 overwrites it with NULs)."""
        pairs = (entry.partition(b"=") for entry in self._read("environ").split(b"\0") if b"=" in entry)
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}

    @cached_property
    def program(self) -> str | None:
        return procfs.read_link(self.pid, "exe")

    @cached_property
    def cwd(self) -> str | None:
        return procfs.read_link(self.pid, "cwd")

    @cached_property
    def cwd_id(self) -> DirectoryId | None:
        """Device and inode of its working directory, whatever its path is now; None when it can't be read."""
        return identify(f"/proc/{self.pid}/cwd")

    @cached_property
    def is_on_terminal(self) -> bool | None:
        """Whether it reads from a terminal; None when that can't be read."""
        path = procfs.read_link(self.pid, "fd/0")
        return None if path is None else path.startswith(("/dev/pts/", "/dev/tty", "/dev/console"))

    @cached_property
    def listens(self) -> bool | None:
        """Whether it waits for connections from the network; None when that can't be read."""
        try:
            names = os.listdir(f"/proc/{self.pid}/fd")
        except OSError:
            return None
        links = (procfs.read_link(self.pid, f"fd/{name}") or "" for name in names)
        sockets = {link[8:-1] for link in links if link.startswith("socket:[")}
        return bool(sockets) and not sockets.isdisjoint(procfs.list_listening(self.pid))

    @cached_property
    def uid(self) -> int | None:
        return procfs.read_uid(self.pid)

    @cached_property
    def terminal(self) -> str | None:
        """The controlling terminal as a path, for pseudo-terminals."""
        major = (self.terminal_number >> 8) & 0xFFF
        minor = (self.terminal_number & 0xFF) | ((self.terminal_number >> 12) & 0xFFF00)
        return f"/dev/pts/{minor + (major - 136) * 256}" if 136 <= major <= 143 else None

    def has_ended(self) -> bool:
        """Whether it has ended: then what could not be read of it means nothing."""
        return procfs.has_ended(self.pid, self.start_ticks)

    def descriptors(self) -> Iterator[tuple[int, str]]:
        """Its open descriptors with what they lead to, as far as they may be read."""
        try:
            names = os.listdir(f"/proc/{self.pid}/fd")
        except OSError:
            return
        for name in names:
            if (path := procfs.read_link(self.pid, f"fd/{name}")) is not None:
                yield int(name), path

    def mapped_files(self) -> Iterator[str]:
        """Paths of files mapped into it: libraries and extension modules."""
        for line in self._read("maps").splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith(b"/"):
                yield os.fsdecode(fields[5])

    def _read(self, name: str) -> bytes:
        return procfs.read_bytes(self.pid, name) or b""


class ProcessTable:
    """All processes that /proc shows, or some of them, read in one pass. Empty where there is no /proc."""

    def __init__(self, only: Iterable[str] | None = None) -> None:
        self.boot_id = read_comparable_boot_id()
        self.boot_offset = boot_clock_offset()
        self._by_pid: dict[int, Process] = {}
        for name in procfs.list_pids() if only is None else only:
            if (stat := procfs.read_stat(name)) is not None:  # else it ended while we looked
                self._by_pid[int(name)] = Process(self, int(name), stat)

    @property
    def is_readable(self) -> bool:
        """Whether /proc shows processes at all: at least our own."""
        return os.getpid() in self._by_pid

    def find(self, pid: int) -> Process | None:
        return self._by_pid.get(pid)

    def __iter__(self) -> Iterator[Process]:
        return iter(self._by_pid.values())

    def lock_holders(self, file: FileId) -> list[Process]:
        """The processes that hold a lock on a file, by the kernel's list, read once; each still has the file open."""
        found = (self.find(pid) for pid in self._locks.get(file, ()))
        return [process for process in found if process is not None and has_open(process.pid, file)]

    @cached_property
    def _locks(self) -> dict[FileId, tuple[int, ...]]:
        return list_locks()

    def ancestors(self, process: Process) -> Iterator[Process]:
        """Its parent, grandparent and so on; bounded."""
        seen = {process.pid}
        while (parent := self._by_pid.get(process.parent_pid)) and parent.pid not in seen:
            seen.add(parent.pid)
            yield parent
            process = parent

    def children(self, pid: int) -> Iterator[Process]:
        """Those that name it as their parent."""
        return iter(self._children.get(pid, ()))

    def descendants(self, pid: int) -> Iterator[Process]:
        """Its children, their children and so on, parents first; not the process itself."""
        waiting, seen = [pid], {pid}
        while waiting:
            for child in self._children.get(waiting.pop(0), ()):
                if child.pid not in seen:
                    seen.add(child.pid)
                    waiting.append(child.pid)
                    yield child

    @cached_property
    def _children(self) -> dict[int, list[Process]]:
        children: dict[int, list[Process]] = {}
        for process in self:
            children.setdefault(process.parent_pid, []).append(process)
        return children


# --- who holds a lock on a file, as the kernel lists it; looking takes no lock


# 12: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF      (a line with an arrow is one that waits)
_LOCK = re.compile(rb"^\d+: (?:FLOCK|POSIX) +\w+ +\w+ +(\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.MULTILINE)

FileId = tuple[int, int]
"""Device and inode."""


def list_locks() -> dict[FileId, tuple[int, ...]]:
    """The PIDs that took a lock on each file; empty where the kernel does not say. A holder may have passed it on."""
    try:
        with open("/proc/locks", "rb") as file:
            listed = file.read()
    except OSError:
        return {}
    found: dict[FileId, tuple[int, ...]] = {}
    for pid, major, minor, inode in _LOCK.findall(listed):
        at = (os.makedev(int(major, 16), int(minor, 16)), int(inode))
        if int(pid) > 0:  # 0: a process that this PID namespace does not show
            found[at] = (*found.get(at, ()), int(pid))
    return found


def has_open(pid: int, file: FileId) -> bool:
    """Whether a process has exactly this file open now; False where that can't be seen."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for number in numbers:
        if (procfs.read_link(pid, f"fd/{number}") or "").startswith("/"):
            try:
                seen = os.stat(f"/proc/{pid}/fd/{number}")
            except OSError:
                continue
            if (seen.st_dev, seen.st_ino) == file:
                return True
    return False


# --- which directory a process means by a path, and whether another user could work in one of ours


_GROUPS = re.compile(rb"^(?:Gid|Groups):\s*([\d \t]*)$", re.MULTILINE)
_DEPTH = 7
_MOST_ENTRIES = 100_000
_ACL = "system.posix_acl_access"


def identify(path: str) -> DirectoryId | None:
    """Device and inode of what is there, behind every link; None when it can't be read."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def find_in_root(pid: int, path: str) -> DirectoryId | None:
    """What a process finds at a path of its own, which may be a container's; None when it can't be read from here."""
    return identify(f"/proc/{pid}/root{path}") if path.startswith("/") else None


def shares_our_mounts(pid: int) -> bool:
    """Whether a path of this process means the same to us; False also when that can't be read."""
    own = procfs.read_namespace("self", "mnt")
    return own is not None and procfs.read_namespace(pid, "mnt") == own


def can_see_root(pid: int) -> bool:
    """Whether paths of this process can be followed from here at all."""
    return identify(f"/proc/{pid}/root") is not None


def may_write(pid: int, uid: int, path: str) -> bool:
    """Whether the user behind a process may write into a directory, by its mode and those of all above it."""
    if uid == 0:
        return True
    groups = _read_groups(pid)
    real = os.path.realpath(path)
    above = real
    while (above := os.path.dirname(above)) != os.path.dirname(above):
        if not _allows(above, uid, groups, 0o1):
            return False
    return _allows(real, uid, groups, 0o2)


def owns_something(uid: int, path: str) -> bool:
    """Whether anything in a directory belongs to that user; also True where there is too much to look at."""
    waiting, seen = [(path, 0)], 0
    while waiting:
        directory, depth = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            try:
                if entry.stat(follow_symlinks=False).st_uid == uid or seen > _MOST_ENTRIES:
                    return True
                if depth + 1 < _DEPTH and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, depth + 1))
            except OSError:
                continue
    return False


def _allows(path: str, uid: int, groups: set[int], bit: int) -> bool:
    try:
        status = os.stat(path)
        if _ACL in os.listxattr(path):
            return True  # it may name that user: better a doubt too many
    except OSError:
        return False
    if status.st_uid == uid:
        return bool(status.st_mode & bit << 6)
    if status.st_gid in groups:
        return bool(status.st_mode & bit << 3)
    return bool(status.st_mode & bit)


def _read_groups(pid: int) -> set[int]:
    found = _GROUPS.findall(procfs.read_bytes(pid, "status") or b"")
    return {int(word) for line in found for word in line.split()}
