"""Processes that have begun since the last look: no kernel tells an ordinary user of them, so the list is compared."""

from __future__ import annotations

import time

from corral.machine import procfs
from corral.machine.processes import Process, ProcessTable

_LOOK_SECONDS = 0.4
_REST = 200.0
"""A look is followed by a pause of so many times its own length: it costs half a percent of a core at most."""
_YOUNG_SECONDS = 4.0
"""So long a new process is looked at again: a launcher becomes the agent by exec, under the same number."""


class Births:
    """Says what is new, and when to ask again. A process that becomes an agent when it is old is not seen here."""

    def __init__(self) -> None:
        self.due = 0.0
        """When to look next, on the monotonic clock."""
        self._known = set(procfs.list_pids())
        self._young: dict[str, float] = {}
        """New ones, and until when they are."""

    def look(self) -> ProcessTable | None:
        """The new processes and those that were new a moment ago; None when there are none."""
        begun = time.monotonic()
        names = set(procfs.list_pids())
        for name in names - self._known:
            self._young[name] = begun + _YOUNG_SECONDS
        self._known = names
        self._young = {name: until for name, until in self._young.items() if name in names and until > begun}
        table = ProcessTable(self._young) if self._young else None
        ended = time.monotonic()
        self.due = ended + max(_LOOK_SECONDS, _REST * (ended - begun))
        return table

    def settle(self, process: Process) -> None:
        """It is known what this one is: it need not be looked at again."""
        self._young.pop(str(process.pid), None)
