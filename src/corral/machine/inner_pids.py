"""Processes in PID namespaces below ours, by the number they bear inside: who else may be "pid 17"?"""

from __future__ import annotations

import time
from typing import NamedTuple

from corral.machine import procfs
from corral.machine.host import boot_clock_offset, read_own_pid_namespace

_MAX_AGE_S = 30.0
_MAX_AGE_UNDATED_S = 1.0


class InnerProcess(NamedTuple):
    """One process of a child namespace."""

    pid: int
    """As we see it."""
    pid_ns: int | None
    """None when it may not be read."""
    start_ticks: int
    started_at: float


class InnerPids:
    """One look at all processes; good for records that were written before it."""

    def __init__(self) -> None:
        self._read_at = time.time()
        self._read_at_monotonic = time.monotonic()
        self._by_inner_pid: dict[int, list[InnerProcess]] = {}
        own = read_own_pid_namespace()
        offset = boot_clock_offset()
        for name in procfs.list_pids():
            pid_ns = procfs.read_namespace(name, "pid")
            if pid_ns is not None and pid_ns == own:
                continue
            pids = procfs.read_ns_pids(int(name))
            if len(pids) < 2 or (stat := procfs.read_stat(name)) is None:
                continue
            started_at = offset + stat.start_ticks / procfs.TICKS_PER_SECOND
            process = InnerProcess(int(name), pid_ns, stat.start_ticks, started_at)
            self._by_inner_pid.setdefault(pids[-1], []).append(process)

    def covers(self, written_at: float | None) -> bool:
        """Whether every process that began before that time, and still runs, was seen."""
        age = time.monotonic() - self._read_at_monotonic
        if written_at is None or written_at > time.time():
            return age <= _MAX_AGE_UNDATED_S
        return age <= _MAX_AGE_S and written_at <= self._read_at

    def numbers(self) -> set[int]:
        """Every number that some process bears inside."""
        return set(self._by_inner_pid)

    def find(self, inner_pid: int) -> list[InnerProcess]:
        """Those that bear the number inside, and still run."""
        return [
            process
            for process in self._by_inner_pid.get(inner_pid, ())
            if not procfs.has_ended(process.pid, process.start_ticks)
        ]


_latest: InnerPids | None = None


def read_inner_pids(written_at: float | None) -> InnerPids:
    """A look that covers records of that time; one look serves a whole survey."""
    global _latest
    if _latest is None or not _latest.covers(written_at):
        _latest = InnerPids()
    return _latest
