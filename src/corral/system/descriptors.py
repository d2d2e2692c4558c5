"""Descriptors: how many this process may still open, and waiting for one however high its number is."""

from __future__ import annotations

import os


def are_left(count: int) -> bool:
    """Whether so many more can be open at once."""
    taken: list[int] = []
    try:
        while len(taken) < count:
            taken.append(os.dup(2))
    except OSError:
        return False
    finally:
        for fd in taken:
            os.close(fd)
    return True


def is_ready(fd: int, wait_seconds: float | None) -> bool:
    """Whether there is something to read from it within that time; of a pidfd, whether its process has ended.

    Not by select(), which fails from descriptor 1024 on: a server with many viewers has more.
    """
    import select

    watch = select.poll()
    watch.register(fd, select.POLLIN)
    return bool(watch.poll(None if wait_seconds is None else wait_seconds * 1000))


def most_open() -> int | None:
    """The limit of this process, where the system has one."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
