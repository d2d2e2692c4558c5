"""Where an agent is that has a session or may have it: a terminal of ours, a pane of tmux, elsewhere, or nowhere."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator, Mapping

from corral.machine.processes import Process, ProcessTable
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
    """How to get to a pane from a terminal with these variables."""
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


# --- tmux: which pane has which process, in every server of this user


_SECONDS = 5.0
_FORMAT = "#{pane_pid}\t#{pane_id}\t#{session_name}:#{window_index}.#{pane_index}"


def list_panes(variables: Mapping[str, str]) -> list[Pane]:
    """Every pane of every server that answers. Nothing when tmux is not installed."""
    return [pane for path in _list_sockets(variables) for pane in _ask(path)]


def is_inside(socket: str, variables: Mapping[str, str]) -> bool:
    """Whether we run in a pane of this very server."""
    here = variables.get("TMUX", "").partition(",")[0]
    return bool(here) and os.path.realpath(here) == os.path.realpath(socket)


def go_command(pane: Pane, variables: Mapping[str, str]) -> list[str] | None:
    """What brings the person to the pane; None from within another tmux server, where neither way works."""
    if is_inside(pane.socket, variables):
        return ["tmux", "-S", pane.socket, "switch-client", "-t", pane.pane_id]
    if variables.get("TMUX"):
        return None
    return go_outside(pane)


def go_outside(pane: Pane) -> list[str]:
    """What shows the pane in a terminal outside tmux."""
    way = ["select-window", "-t", pane.pane_id, ";", "select-pane", "-t", pane.pane_id, ";"]
    return ["tmux", "-S", pane.socket, *way, "attach-session", "-t", pane.pane_id]


def switch_client(command: list[str]) -> str | None:
    """Switch the tmux client that shows us to that pane; or why it did not switch."""
    try:
        # Our standard input tells tmux which pane this is, and so whose client to switch.
        done = subprocess.run(command, stderr=subprocess.PIPE, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"its server does not answer within {_SECONDS:.0f} s"
    except OSError as error:
        return f"it can't be started: {error.strerror}"
    if done.returncode == 0:
        return None
    said = done.stderr.decode(errors="replace").strip()
    # tmux 3.3: the words of a server that nobody is attached to (2026-11)
    return "nobody is attached to it, so there is no screen to show it on" if said == "no current client" else said


def _list_sockets(variables: Mapping[str, str]) -> list[str]:
    """Those in tmux's own directories, and the one we run in."""
    parents = dict.fromkeys([variables.get("TMUX_TMPDIR") or "/tmp", "/tmp"])
    found = [here] if (here := variables.get("TMUX", "").partition(",")[0]) else []
    for parent in parents:
        directory = os.path.join(parent, f"tmux-{os.getuid()}")
        try:
            found += [os.path.join(directory, name) for name in sorted(os.listdir(directory))]
        except OSError:
            continue  # no server of ours was ever there
    return [path for path in dict.fromkeys(map(os.path.realpath, found)) if _is_own_socket(path)]


def _is_own_socket(path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid()


def _ask(path: str) -> list[Pane]:
    words = ["tmux", "-S", path, "list-panes", "-a", "-F", _FORMAT]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return []
    panes: list[Pane] = []
    for line in done.stdout.decode(errors="replace").splitlines():
        pid, _, rest = line.partition("\t")
        pane_id, _, name = rest.partition("\t")
        if pid.isdecimal():
            panes.append(Pane(path, pane_id, name, int(pid)))
    return panes
