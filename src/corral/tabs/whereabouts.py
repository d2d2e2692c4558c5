"""Where an agent is that has a session or may have it: in a terminal of ours, a pane of tmux, elsewhere, or nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from corral.machine.processes import Process, ProcessTable
from corral.machine.tmux import go_command, go_outside, is_inside, list_panes
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.model.session import Session
from corral.model.terminal import Standing
from corral.model.whereabouts import Found, InPane, InTab, InTerminal, Look, Nowhere, Pane, Way, Whereabouts
from corral.sessions.naming import find_by_key, find_session
from corral.sidecar.processes import read_identity
from corral.terminals.directory import list_terminals, terminals_dir


def look_at(name: str | SessionKey) -> Look:
    """One session as it is now, and where the processes are that have it, or may have it.

    By the name that a person types (raises NotFound, Ambiguous), or by its key (raises RefusedError).
    """
    session = find_by_key(name) if isinstance(name, SessionKey) else find_session(name)
    return Look(session, tuple(Found(one, find_whereabouts(one)) for one in _list_suspects(session)))


def _list_suspects(session: Session) -> Iterator[ProcessIdentity]:
    """Not the numbers that claims of other machines and containers name: here they are somebody else's."""
    yield from session.verdict.processes
    for pid in session.verdict.maybe_pids:
        identity = read_identity(pid)
        if identity is not None and identity not in session.verdict.processes:
            yield identity


def find_whereabouts(identity: ProcessIdentity) -> Whereabouts:
    """By the ancestry of this process, whose identity is verified; nothing is found by name."""
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


def find_way(pane: Pane, variables: Mapping[str, str]) -> Way:
    """To a pane, from a terminal with these variables."""
    command = go_command(pane, variables)
    return Way(
        command=tuple(command) if command else None,
        from_outside=tuple(go_outside(pane)),
        is_here=is_inside(pane.socket, variables),
    )


def _find_keeper(process: Process, table: ProcessTable) -> str | None:
    """The nearest ancestor outside the terminal."""
    for one in table.ancestors(process):
        if one.terminal != process.terminal and one.pid > 1:
            return f"{one.comm} (pid {one.pid})"
    return None
