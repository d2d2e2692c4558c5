"""What processes use, read from /proc: CPU, memory, and whose they are. No rights are needed; who ends is left out."""

from __future__ import annotations

import os
import re

from corral.machine import procfs
from corral.model.metering import MemoryKind, SeenProcess, Use
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)


def list_seen(variable: str) -> dict[int, SeenProcess]:
    """One snapshot of all processes that /proc shows, with the value of one variable of their environment."""
    seen: dict[int, SeenProcess] = {}
    for name in procfs.list_pids():
        account = procfs.read_account(name)
        if account is None or account.stat.is_kernel:
            continue
        pid = int(name)
        seen[pid] = SeenProcess(
            pid=pid,
            start_ticks=account.stat.start_ticks,
            parent_pid=account.stat.parent_pid,
            group=account.group,
            kernel_session=account.kernel_session,
            name=os.fsdecode(account.stat.comm),
            tab=_read_variable(pid, variable),
        )
    return seen


def is_same(seen: SeenProcess, identity: ProcessIdentity) -> bool:
    """Whether a process of the snapshot is the one that was verified, and still runs."""
    return seen.start_ticks == identity.start_ticks and read_identity(identity.pid) == identity


def read_use(seen: SeenProcess, snapshot: dict[int, SeenProcess]) -> Use | None:
    """What one process uses now, or None when it has ended, also if its number has passed to another."""
    memory, unreadable = procfs.read_bytes(seen.pid, "smaps_rollup"), _count_hidden(seen.pid, snapshot)
    # Last: if it is the same process still, what was read before is its own.
    account = procfs.read_account(seen.pid)
    if account is None:
        return Use(unreadable=1) if _is_hidden(seen.pid) else None
    if account.stat.start_ticks != seen.start_ticks:
        return None
    cpu_seconds = account.cpu_ticks / procfs.TICKS_PER_SECOND
    if account.stat.state in "ZX":  # it has no memory any more, and its time is in nobody else's yet
        return Use(processes=1, cpu_seconds=cpu_seconds)
    pss = _PSS.search(memory or b"")
    return Use(
        processes=1,
        cpu_seconds=cpu_seconds,
        memory_bytes=int(pss[1]) * 1024 if pss else account.resident_pages * _PAGE_BYTES,
        memory_kind=MemoryKind.PSS if pss else MemoryKind.RSS,
        unreadable=unreadable,
    )


def _read_variable(pid: int, name: str) -> str | None:
    """As it was when the program began; None also when the environment may not be read."""
    for entry in (procfs.read_bytes(pid, "environ") or b"").split(b"\0"):
        if entry.startswith(name.encode() + b"="):
            return os.fsdecode(entry.partition(b"=")[2]) or None
    return None


def _count_hidden(pid: int, snapshot: dict[int, SeenProcess]) -> int:
    """Its children that the kernel names and /proc does not show us: another user's, under hidepid."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    named = {
        int(child)
        for thread in threads
        for child in (procfs.read_bytes(pid, f"task/{thread}/children") or b"").split()
        if int(child) not in snapshot
    }
    return sum(map(_is_hidden, named))


def _is_hidden(pid: int) -> bool:
    """Whether it exists, and /proc does not show it to us."""
    try:
        os.getpgid(pid)  # asks for existence without any permission, and without a signal
    except OSError:
        return False
    return procfs.read_account(pid) is None
