"""Named locks that last no longer than whoever holds them, and are deleted once nobody has used them for long."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress

_STEP_SECONDS = 0.05
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def take_lock(directory: str, name: str, *, wait_seconds: float = 0.0) -> int | None:
    """A descriptor that holds the named lock until it is closed everywhere, or None when another has it.

    Raises OSError when there can be no lock at all.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    path = os.path.join(directory, name)
    deadline = time.monotonic() + wait_seconds
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if _try_to_hold(fd):
                # Somebody may have swept the file between the two steps: then another can hold the new one.
                if _is_still(fd, path):
                    os.utime(fd)
                    return fd
                os.close(fd)
                continue
        except OSError:
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() >= deadline:
            return None
        time.sleep(_STEP_SECONDS)


def sweep_locks(directory: str, before: float) -> None:
    """Remove the locks that were last taken before that time and that nobody holds."""
    with suppress(FileNotFoundError):
        for name in os.listdir(directory):
            with suppress(OSError):
                _sweep_one(os.path.join(directory, name), before)


def _sweep_one(path: str, before: float) -> None:
    if os.stat(path).st_mtime >= before:
        return
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # Only the holder may remove it; whoever waits finds another file by that name, or none, and starts over.
        if _try_to_hold(fd) and _is_still(fd, path) and os.fstat(fd).st_mtime < before:
            os.unlink(path)
    finally:
        os.close(fd)


def _try_to_hold(fd: int) -> bool:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


def _is_still(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
