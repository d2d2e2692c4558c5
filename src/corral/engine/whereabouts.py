"""Where a running agent is: in a terminal of ours, in a pane of tmux, in someone else's terminal, or in none."""

from __future__ import annotations

import os

from msgspec import Struct

from corral.model.process import ProcessIdentity
from corral.system.processes import Process, ProcessTable
from corral.system.tmux import Pane, list_panes
from corral.terminals.directory import Standing, list_terminals, terminals_dir


class InTab(Struct, frozen=True):
    """In a terminal of ours."""

    tab: str


class InPane(Struct, frozen=True):
    """In a pane of the user's tmux."""

    pane: Pane


class InTerminal(Struct, frozen=True, kw_only=True):
    """In a terminal that we have no way into."""

    pid: int
    program: str
    tty: str
    keeper: str | None
    """The program behind that terminal, with its pid: "sshd (pid 812)"; None when it can't be told."""


class Nowhere(Struct, frozen=True):
    """It runs without a terminal, or is gone."""

    reason: str


Whereabouts = InTab | InPane | InTerminal | Nowhere


def find_whereabouts(identity: ProcessIdentity) -> Whereabouts:
    """By the ancestry of this very process; nothing is found by name."""
    table = ProcessTable()
    process = table.find(identity.pid)
    if process is None or process.identity != identity:
        return Nowhere(f"pid {identity.pid} has ended")
    tabs = {one.child.pid: one for one in list_terminals(terminals_dir()) if one.standing is Standing.RUNNING}
    panes = {pane.pid: pane for pane in list_panes(os.environ)}
    for one in (process, *table.ancestors(process)):
        # The nearest counts: a tmux may run in a terminal of ours, and the other way round.
        if one.pid in tabs and tabs[one.pid].child == one.identity:
            return InTab(tabs[one.pid].tab)
        if one.pid in panes:
            return InPane(panes[one.pid])
    if process.terminal is None:
        return Nowhere(f"pid {process.pid} ({process.comm}) runs without a terminal")
    return InTerminal(pid=process.pid, program=process.comm, tty=process.terminal, keeper=_find_keeper(process, table))


def _find_keeper(process: Process, table: ProcessTable) -> str | None:
    """The nearest ancestor outside the terminal."""
    for one in table.ancestors(process):
        if one.terminal != process.terminal and one.pid > 1:
            return f"{one.comm} (pid {one.pid})"
    return None
