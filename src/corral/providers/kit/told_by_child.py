"""The session that a CLI names in the environment of the tools it runs: a claim only while such a tool runs."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from corral.machine.processes import Process, ProcessTable
from corral.machine.procfs import read_bytes, read_ns_pids
from corral.model.process import ToldByChild


class ToolEnvironment(Struct, frozen=True):
    """How a CLI marks the environment of its tools."""

    mark: bytes
    """An entry that only tools have: `NAME=1`."""
    session: bytes
    """The variable that names the session, with its `=`."""
    is_session_id: Callable[[str], bool]

    def find_told(self, process: Process, table: ProcessTable) -> ToldByChild | None:
        """What the tools of this process were told; None while it runs none, or where they disagree.

        A CLI that a tool started has inherited the id of the session around it, and so have its servers and levels:
        that id is not its own.
        """
        inherited = self._read(process)
        told = [
            (child, session_id)
            for child in table.children(process.pid)
            if child.start_ticks >= process.start_ticks
            and (session_id := self._read(child, as_tool=True)) is not None
            and session_id != inherited
        ]
        numbers = read_ns_pids(process.pid)
        if len({session_id for _, session_id in told}) != 1 or not numbers or process.has_ended():
            return None
        child, session_id = told[0]
        return ToldByChild(numbers[-1], child.pid, session_id, child.started_at)

    def _read(self, process: Process, *, as_tool: bool = False) -> str | None:
        """The session in its environment. Other entries are secrets: they are neither decoded nor kept."""
        entries = (read_bytes(process.pid, "environ") or b"").split(b"\0")
        if as_tool and self.mark not in entries:
            return None
        found = next((entry for entry in entries if entry.startswith(self.session)), b"")
        session_id = found.removeprefix(self.session).decode("ascii", "replace")
        return session_id if self.is_session_id(session_id) else None
