"""Ending a program step by step: hang up, ask, force; each only if the one before did not do. Standard library only."""

from __future__ import annotations

import signal

from corral.terminals.child import Child, signal_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STEP_SECONDS = 5.0
_STEPS = (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)


class Ending:
    """Begun once; `due` says when the next step is to be taken."""

    def __init__(self, child: Child, log: Callable[[str], None]) -> None:
        self._child = child
        self._log = log
        self._left = list(_STEPS)
        self.due: float | None = None
        """On the monotonic clock; None before it was asked for, and after the last step."""

    def begin(self, now: float) -> None:
        if self.due is None and len(self._left) == len(_STEPS):
            self._log("asked to end the program")
            self.due = now
            self.advance(now)

    def advance(self, now: float) -> None:
        """Take the next step if it is time."""
        if self.due is None or now < self.due:
            return
        number = self._left.pop(0)
        # Through the pidfd of a child that was not reaped: it can reach nobody else.
        sent = signal_child(self._child, number)
        if sent and number is signal.SIGHUP:
            signal_child(self._child, signal.SIGCONT)  # one that is stopped could not end
        self._log(f"{number.name} {'sent' if sent else 'came too late'}")
        self.due = now + STEP_SECONDS if sent and self._left else None

    def cancel(self) -> None:
        """The program has ended."""
        self.due = None
