"""The process table: every process once, details read from /proc only when asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property

from corral.sidecar.identity import ProcessIdentity
from corral.system import procfs
from corral.system.host import boot_clock_offset, read_comparable_boot_id, read_own_pid_namespace


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
        self.start_ticks = stat.start_ticks

    @property
    def started_at(self) -> float:
        """Epoch seconds, through CLOCK_BOOTTIME."""
        return self._table.boot_offset + self.start_ticks / procfs.TICKS_PER_SECOND

    @cached_property
    def identity(self) -> ProcessIdentity | None:
        """None when its PID namespace can't be told: another user's process in a container."""
        pid_ns = procfs.read_pid_namespace(self.pid)
        if pid_ns is None:
            return None
        return ProcessIdentity(self._table.boot_id or "", pid_ns, self.pid, self.start_ticks)

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
    def uid(self) -> int | None:
        return procfs.read_uid(self.pid)

    @property
    def may_touch_our_files(self) -> bool:
        """Ours, or root's; as root, anyone's: another user's process can't write into a home that is ours alone."""
        return os.getuid() == 0 or self.uid in (os.getuid(), 0)

    @cached_property
    def terminal(self) -> str | None:
        """The controlling terminal as a path, for pseudo-terminals."""
        major = (self.terminal_number >> 8) & 0xFFF
        minor = (self.terminal_number & 0xFF) | ((self.terminal_number >> 12) & 0xFFF00)
        return f"/dev/pts/{minor + (major - 136) * 256}" if 136 <= major <= 143 else None

    def has_ended(self) -> bool:
        """Whether it is no more: what could not be read of it then tells nothing."""
        return procfs.has_ended(self.pid, self.start_ticks)

    def open_files(self) -> Iterator[str]:
        """Paths of its open descriptors, as far as they may be read."""
        try:
            names = os.listdir(f"/proc/{self.pid}/fd")
        except OSError:
            return
        for name in names:
            if (path := procfs.read_link(self.pid, f"fd/{name}")) is not None:
                yield path

    def mapped_files(self) -> Iterator[str]:
        """Paths of files mapped into it: libraries and extension modules."""
        for line in self._read("maps").splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith(b"/"):
                yield os.fsdecode(fields[5])

    def _read(self, name: str) -> bytes:
        return procfs.read_bytes(self.pid, name) or b""


class ProcessTable:
    """All processes that /proc shows, read in one pass. Empty where there is no /proc."""

    def __init__(self) -> None:
        self.boot_id = read_comparable_boot_id()
        self.boot_offset = boot_clock_offset()
        self.own_pid_ns = read_own_pid_namespace()
        self._by_pid: dict[int, Process] = {}
        for name in procfs.list_pids():
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

    def ancestors(self, process: Process) -> Iterator[Process]:
        """Its parent, grandparent and so on; bounded."""
        seen = {process.pid}
        while (parent := self._by_pid.get(process.parent_pid)) and parent.pid not in seen:
            seen.add(parent.pid)
            yield parent
            process = parent

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
