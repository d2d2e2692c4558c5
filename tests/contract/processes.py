"""The harness's own look at /proc, kept apart from corral's: what the tests take for the truth."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_FORKED_WITHOUT_EXEC = 0x40  # PF_FORKNOEXEC, among the kernel's flags of a process


@dataclass(frozen=True, slots=True, kw_only=True)
class Proc:
    """One process at one moment. `start_ticks` tells it from a later one with the same pid."""

    pid: int
    ppid: int
    state: str
    comm: str
    start_ticks: int
    is_copy: bool
    """Forked and not yet the program that it is to become: it looks like its parent."""


def read_proc(pid: int) -> Proc | None:
    """The process with this pid, or None if there is none. A zombie is returned, with state Z."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    head, _, tail = raw.rpartition(b")")
    fields = tail.split()
    comm = head.partition(b"(")[2].decode(errors="replace")
    return Proc(
        pid=pid,
        ppid=int(fields[1]),
        state=fields[0].decode(),
        comm=comm,
        start_ticks=int(fields[19]),
        is_copy=bool(int(fields[6]) & _FORKED_WITHOUT_EXEC),
    )


def inner_pid(pid: int) -> int:
    """The number that a process has in its own PID namespace."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])


def cmdline(pid: int) -> list[str]:
    """The argument vector as /proc shows it; empty if the process is gone."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode(errors="replace") for word in raw.rstrip(b"\0").split(b"\0")]


def descendants(*pids: int) -> list[Proc]:
    """These processes and everything below them, parents before children."""
    table = [proc for name in os.listdir("/proc") if name.isdigit() and (proc := read_proc(int(name)))]
    found = [proc for proc in table if proc.pid in pids]
    for parent in found:
        found.extend(proc for proc in table if proc.ppid == parent.pid and proc not in found)
    return found


def environ(pid: int) -> dict[str, str]:
    """The environment the process was started with; empty if it can't be read or was overwritten."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (word.decode(errors="replace").partition("=") for word in raw.split(b"\0") if b"=" in word)
    return {name: value for name, _, value in pairs}


def find_marked(name: str, value: str) -> list[Proc]:
    """The processes whose environment has this variable: also those that left their parents."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [proc for pid in pids if environ(pid).get(name) == value and (proc := read_proc(pid))]


def is_running(proc: Proc) -> bool:
    """Whether this very process still runs. A zombie does not, once the last of its threads has ended too."""
    now = read_proc(proc.pid)
    if now is None or now.start_ticks != proc.start_ticks:
        return False
    return now.state not in "ZX" or _count_threads(proc.pid) > 1


def _count_threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def stop_all(procs: list[Proc], *, grace_seconds: float = 3, kill_seconds: float = 60) -> None:
    """Ends these very processes: asked first, killed if they stay."""
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, kill_seconds)):
        running = [proc for proc in procs if is_running(proc)]
        for proc in running:
            try:
                os.kill(proc.pid, number)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + seconds
        while any(is_running(proc) for proc in running) and time.monotonic() < deadline:
            time.sleep(0.02)
