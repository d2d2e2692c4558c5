"""Which file systems are shared with other machines: a PID found there may be another host's."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_SHARED = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.sshfs", "gfs2", "glusterfs", "lustre", "nfs", "nfs4",
     "ocfs2", "smb3", "smbfs", "virtiofs"}
)  # fmt: skip


@lru_cache(maxsize=256)
def is_on_network(path: str) -> bool:
    """Whether the directory lies on a mount that other machines see too; False if that can't be told."""
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="surrogateescape")
    except OSError:
        return False
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _unescape(fields[1])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind in _SHARED


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
