"""The process table: every process once, details read from /proc only when asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property

from corral.sidecar.identity import ProcessIdentity
from corral.system.host import boot_clock_offset, read_boot_id

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Process:
    """One process as /proc showed it. Details that may not be read are empty or None, never an exception."""

    def __init__(self, table: ProcessTable, pid: int, stat: bytes) -> None:
        # comm may contain anything, ")" and spaces included: fields are counted after the last parenthesis.
        close = stat.rindex(b")")
        fields = stat[close + 2 :].split()
        self._table = table
        self.pid = pid
        self.comm = os.fsdecode(stat[stat.index(b"(") + 1 : close])
        self.state = fields[0].decode()
        self.parent_pid = int(fields[1])
        self.terminal_number = int(fields[4])
        self.is_kernel = bool(int(fields[6]) & 0x00200000)
        self.start_ticks = int(fields[19])

    @property
    def started_at(self) -> float:
        """Epoch seconds, through CLOCK_BOOTTIME."""
        return self._table.boot_offset + self.start_ticks / _TICKS_PER_SECOND

    @cached_property
    def identity(self) -> ProcessIdentity | None:
        """None when its PID namespace may not be read."""
        pid_ns = self._table.own_pid_ns if self._table.own_pid_ns else 0
        try:
            pid_ns = os.stat(f"/proc/{self.pid}/ns/pid").st_ino
        except PermissionError:
            return None
        except OSError:
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
        return self._link("exe")

    @cached_property
    def cwd(self) -> str | None:
        return self._link("cwd")

    @cached_property
    def uid(self) -> int | None:
        try:
            return os.stat(f"/proc/{self.pid}").st_uid
        except OSError:
            return None

    @cached_property
    def terminal(self) -> str | None:
        """The controlling terminal as a path, for pseudo-terminals."""
        major = (self.terminal_number >> 8) & 0xFFF
        minor = (self.terminal_number & 0xFF) | ((self.terminal_number >> 12) & 0xFFF00)
        return f"/dev/pts/{minor + (major - 136) * 256}" if 136 <= major <= 143 else None

    def open_files(self) -> Iterator[str]:
        """Paths of its open descriptors, as far as they may be read."""
        directory = f"/proc/{self.pid}/fd"
        try:
            names = os.listdir(directory)
        except OSError:
            return
        for name in names:
            try:
                yield os.readlink(f"{directory}/{name}")
            except OSError:
                continue

    def mapped_files(self) -> Iterator[str]:
        """Paths of files mapped into it: libraries and extension modules."""
        for line in self._read("maps").splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith(b"/"):
                yield os.fsdecode(fields[5])

    def _read(self, name: str) -> bytes:
        try:
            with open(f"/proc/{self.pid}/{name}", "rb") as file:
                return file.read()
        except OSError:
            return b""

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(f"/proc/{self.pid}/{name}")
        except OSError:
            return None


class ProcessTable:
    """All processes that /proc shows, read in one pass."""

    def __init__(self) -> None:
        self.boot_id = read_boot_id()
        self.boot_offset = boot_clock_offset()
        try:
            self.own_pid_ns = os.stat("/proc/self/ns/pid").st_ino
        except OSError:
            self.own_pid_ns = 0
        self._by_pid: dict[int, Process] = {}
        for name in self._list_pids():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    stat = file.read()
                self._by_pid[int(name)] = Process(self, int(name), stat)
            except (OSError, ValueError, IndexError):
                continue  # it ended while we looked: not a process any more

    @staticmethod
    def _list_pids() -> list[str]:
        try:
            return [name for name in os.listdir("/proc") if name.isdigit()]
        except OSError:
            return []

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
