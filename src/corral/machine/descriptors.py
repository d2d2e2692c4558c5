"""File descriptors: how many this process and its children may open, and waiting for one, whatever its number."""

from __future__ import annotations

import os

_MOST = 65_536
"""More would help nobody, and some programs close every possible descriptor when they start."""
_given: int | None = None
"""The soft limit this process was started with, once it has raised it."""


def raise_limit() -> None:
    """Let this process open as many as it may; what it starts can be given the limit it was started with."""
    global _given
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    _given = soft


def with_given_limit(argv: list[str]) -> list[str]:
    """The command `argv` under the limit this process was started with; as it is where none was raised.

    A shell lowers it and becomes the program: between a fork and its program Python code of ours must not run, since
    the server has threads.
    """
    if _given is None:
        return argv
    return ["/bin/sh", "-c", 'ulimit -S -n "$0" 2>/dev/null; exec "$@"', str(_given), *argv]


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
