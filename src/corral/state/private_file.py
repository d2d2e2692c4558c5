"""Files that only their owner can read: databases, and small records that are replaced as a whole."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import TypeVar

import msgspec

from corral.sidecar.atomic import Directory, replace
from corral.sidecar.files import Unreadable, read_regular
from corral.sidecar.processes import own_identity

_T = TypeVar("_T")


def write_record(directory: str, name: str, record: object) -> None:
    """As JSON; bytes as they are. Durable when it returns. Raises OSError."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with Directory(directory) as opened:
        replace(opened, name, record if isinstance(record, bytes) else msgspec.json.encode(record), own_identity())


def read_record(path: str, decode: Callable[[bytes], _T], limit_bytes: int = 64 << 10) -> _T | Unreadable:
    """What was written there, or why it can't be read."""
    content = read_regular(path, limit_bytes)
    if isinstance(content, Unreadable):
        return content
    try:
        return decode(content.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unreadable(str(error), "invalid")


def make_private(path: str) -> None:
    """Make it, empty and 0600, unless it is there. Raises OSError, also when it is a link or not a regular file.

    One that is there is not opened. Whoever closes a file loses all locks that their process has on it, so that
    SQLite in another thread would go on without its own, and another process would take its log away.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError(errno.ELOOP, "not a regular file", path) from None
        return
    os.close(fd)


def name_aside(path: str, kind: str = "new") -> str:
    """An unused name beside it: in two containers that share a home, both processes may have PID 7."""
    return f"{path}.{kind}-{os.getpid()}-{os.urandom(4).hex()}"


def read_only_uri(path: str) -> str:
    """For SQLite, of a file that is not written: `?`, `#` and `%` in its path are not what they are in a URI."""
    from urllib.parse import quote

    return f"file:{quote(path)}?mode=ro"


def flush(path: str) -> None:
    """Wait until a file or directory is on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(fd)
    os.close(fd)
