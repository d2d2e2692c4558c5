"""Who holds a lock on a file, as the kernel lists it. Looking takes no lock."""

from __future__ import annotations

import os
import re

from corral.machine import procfs

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
    """Whether a process has this very file open now; False where that can't be seen."""
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
