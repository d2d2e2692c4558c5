"""tmux: which pane has which process, in every server of this user, and the way there."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping

from corral.model.whereabouts import Pane

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
    """What shows the pane in a terminal that is no tmux's."""
    way = ["select-window", "-t", pane.pane_id, ";", "select-pane", "-t", pane.pane_id, ";"]
    return ["tmux", "-S", pane.socket, *way, "attach-session", "-t", pane.pane_id]


def switch_client(command: list[str]) -> str | None:
    """Bring the tmux that shows this pane to another one; or why it did not go."""
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
