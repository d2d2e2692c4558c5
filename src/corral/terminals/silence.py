"""A holder that does not answer: how long one waits for it, and what is said of it. It is never signalled."""

from __future__ import annotations

import os
import time

from corral.errors import Silent
from corral.sidecar.processes import parse_stat

ANSWER_SECONDS = 8.0
"""Longer than any holder takes, and shorter than the page waits for us."""
LOOK_SECONDS = 1.0
"""One that is stopped can't answer: after this long it is looked at, and not waited for to the end."""


def describe_silence(tab: str, pid: int) -> Silent:
    """The error to raise for a holder that does not answer, after a look at it."""
    if _is_stopped(pid):
        remedy = f"kill -CONT {pid} lets it go on, and the terminal with it"
        problem = "is stopped"
    else:
        remedy = f"its agent may go on unseen: try again, or see what holds up pid {pid}"
        problem = f"has not answered for {ANSWER_SECONDS:.0f} s"
    return Silent(f"terminal {tab}: its holder, pid {pid}, {problem}", remedy)


class Patience:
    """The wait for one answer."""

    look_seconds = LOOK_SECONDS
    """How often to check, at least."""

    def __init__(self, tab: str, pid: int) -> None:
        self._tab = tab
        self._pid = pid
        self._since = time.monotonic()

    def check(self) -> None:
        """Raises Silent when it is of no use to wait on."""
        waited_seconds = time.monotonic() - self._since
        if waited_seconds >= ANSWER_SECONDS or (waited_seconds >= LOOK_SECONDS and _is_stopped(self._pid)):
            raise describe_silence(self._tab, self._pid)


def _is_stopped(pid: int) -> bool:
    """By a signal, or by its terminal; False also when that can't be told."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        stat = parse_stat(os.read(fd, 4096))
    except OSError:
        return False
    finally:
        os.close(fd)
    return stat is not None and stat.state == "T"
