"""Which directory a process means by a path, and whether another user's process could be at work in one of ours."""

from __future__ import annotations

import os
import re

from corral.machine import procfs
from corral.model.process import DirectoryId

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
