"""A database file that only its owner can read, made without disturbing who has it open in this process."""

from __future__ import annotations

import errno
import os
import stat


def make_private(path: str) -> None:
    """Make it, empty and 0600, unless it is there. Raises OSError, also when it is a link or no file.

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
    """A name beside it that nobody else has: of two containers with one home, both may be process 7."""
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
