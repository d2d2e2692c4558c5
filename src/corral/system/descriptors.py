"""How many files this process may still open: asked before something is begun that could stop half-way."""

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


def most_open() -> int | None:
    """The limit of this process, where the system has one."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
