"""Reading files that others write: regular files only, bounded, never blocking, never following a link."""

from __future__ import annotations

import errno
import os
import stat

from corral.sidecar.light import NamedTuple


class Unreadable(NamedTuple):
    """Why a file could not be read as what it should be. A value, not an exception."""

    reason: str
    code: str = "unreadable"
    """For machines: `not-a-regular-file`, `too-large`, `invalid:path` or `io:<errno name>`."""


class FileBytes(NamedTuple):
    """The bytes of a file and what its descriptor said of it."""

    data: bytes
    stat: os.stat_result


_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_NOT_REGULAR = {errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR}


def errno_code(error: OSError) -> str:
    """The machine's word for an OS error: `io:ENOSPC`."""
    return f"io:{errno.errorcode.get(error.errno or 0, str(error.errno))}"


def open_regular(path: str, dir_fd: int | None = None) -> int | Unreadable:
    """A descriptor of a regular file, or why not. FIFOs, devices, links, directories, sockets are refused."""
    try:
        fd = os.open(path, _FLAGS, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in _NOT_REGULAR:
            return Unreadable("not a regular file", "not-a-regular-file")
        return Unreadable(error.strerror or errno_code(error), errno_code(error))
    except ValueError:
        return Unreadable("invalid path", "invalid:path")
    try:
        is_regular = stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError as error:
        close_quietly(fd)
        return Unreadable(error.strerror or errno_code(error), errno_code(error))
    if not is_regular:
        close_quietly(fd)
        return Unreadable("not a regular file", "not-a-regular-file")
    return fd


def read_regular(path: str, limit: int, dir_fd: int | None = None) -> FileBytes | Unreadable:
    """All bytes of a regular file no longer than `limit`, or why not."""
    fd = open_regular(path, dir_fd)
    if isinstance(fd, Unreadable):
        return fd
    try:
        status = os.fstat(fd)
        parts: list[bytes] = []
        left = limit + 1
        while left > 0 and (part := os.read(fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    except OSError as error:
        return Unreadable(error.strerror or errno_code(error), errno_code(error))
    finally:
        close_quietly(fd)
    if left <= 0:
        return Unreadable(f"larger than {limit} bytes", "too-large")
    return FileBytes(b"".join(parts), status)


def close_quietly(fd: int) -> None:
    """Close a descriptor that was only read from: an error in closing it does not matter."""
    try:
        os.close(fd)
    except OSError:
        pass
