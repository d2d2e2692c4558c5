"""`corral attach`: go to a session where it runs: a terminal of ours, a pane of tmux, or say whose terminal it is."""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from corral.cli.asking import tell
from corral.cli.parsers import Commands, add_command
from corral.cli.raw_terminal import Left, has_terminal, view
from corral.errors import CorralError, NotReachable, Silent
from corral.machine.text import printable
from corral.model.session import Session
from corral.model.terminal import Standing
from corral.model.whereabouts import InPane, InTab, InTerminal, Nowhere, Pane
from corral.providers.settings import read_settings
from corral.sessions import full_name
from corral.tabs import find_tab_started_on, find_way, forget_tab, look_at, switch_client
from corral.terminals import find_terminal, open_client, own_tab, say_end, terminals_dir

_SIGNALLED = 128
_EPILOG = """\
examples:
  corral attach 5d3909df             go to the session, wherever it runs
  corral attach 3f0a9c1d2b4e5f60     a terminal by its tab (corral terminals lists them)

Ctrl-\\ leaves; the agent goes on. Several can be attached at once; the size is that of the one last used.
The key can be set in the config: [terminals] detach_key = "ctrl-]".

exit codes: 0 detached · the agent's own, if it ends meanwhile · 1 not running, or no way there · 2 usage ·
3 ambiguous · 4 not found"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "attach",
        summary="go to a running session: its terminal, its tmux pane",
        description="Show the terminal in which a session runs. Nothing is ever opened a second time.",
        epilog=_EPILOG,
    )
    parser.add_argument("session", metavar="SESSION", help="an id, a unique prefix of it, provider:id, or a tab")
    return parser


def run(args: argparse.Namespace) -> int:
    if find_terminal(terminals_dir(), args.session) is not None:
        return attach_tab(args.session, clear=True)
    look = look_at(args.session)
    session = look.session
    if not session.verdict.processes:
        raise _not_running(session)
    match where := look.where_served:
        case InTab():
            return attach_tab(where.tab, clear=True)
        case InPane():
            return _go_to_pane(session, where.pane)
        case InTerminal():
            keeper = f", a terminal of {where.keeper}" if where.keeper else ""
            raise CorralError(
                f"{full_name(session)} runs in pid {where.pid} ({printable(where.program)}) on {where.tty}{keeper}",
                hint="go there: a session is never opened a second time",
            )
        case Nowhere():
            raise CorralError(f"{full_name(session)} has no terminal to attach to: {where.reason}")


def _not_running(session: Session) -> CorralError:
    hint = f"corral resume {full_name(session)} continues it, if that is possible"
    if tab := find_tab_started_on(session.key):
        hint = f"a terminal was started on it, and what it has now is not known: corral attach {tab}"
    return CorralError(f"{full_name(session)} is not known to run: {session.verdict.reason}", hint=hint)


def attach_tab(tab: str, *, clear: bool) -> int:
    """Show a terminal of ours here. Returns the program's exit code if it ends meanwhile, 0 after detaching."""
    if not has_terminal():
        raise CorralError("there is no terminal here to attach from")
    if own_tab() == tab:
        raise CorralError("this is the same terminal: it can't show itself")
    directory = terminals_dir()
    terminal = find_terminal(directory, tab)
    try:
        with open_client(directory, tab) as client:
            detach_key = read_settings().detach_key
            viewing = view(client, detach_key, clear=clear, tell=tell)
    except Silent as error:
        raise CorralError(f"it can't be shown: {error}", hint=error.remedy) from error
    except NotReachable as error:
        if terminal is not None and terminal.standing is Standing.ENDED:
            forget_tab(tab)
            return _say_end(terminal.status)
        if terminal is not None and terminal.standing is Standing.LOST:
            raise _lost() from error
        raise CorralError(f"it can't be shown: {error}", hint="corral terminals lists what is left") from error
    match viewing.left:
        case Left.DETACHED:
            tell(f"detached; corral attach {tab} returns to it")
            return 0
        case Left.ENDED:
            forget_tab(tab)
            return _say_end(viewing.status)
        case Left.LOST:
            raise _lost()


def _lost() -> CorralError:
    return CorralError("the terminal is gone: its holder was killed", hint="corral ps --all shows what can be resumed")


def _say_end(status: int | None) -> int:
    if status is not None and status < 0:
        tell(f"the agent {say_end(status)}")
        return _SIGNALLED - status
    return status or 0


def _go_to_pane(session: Session, pane: Pane) -> int:
    way = find_way(pane, os.environ)
    from_outside = shlex.join(way.from_outside)
    if way.command is None:
        raise CorralError(
            f"{full_name(session)} runs in pane {printable(pane.name)} of another tmux server ({pane.socket})",
            hint=f"outside this tmux: {from_outside}",
        )
    if way.is_here:
        tell(f"it runs in this tmux, pane {printable(pane.name)}")
        if problem := switch_client(way):
            raise CorralError(f"tmux does not go there: {problem}", hint=f"in a terminal of your own: {from_outside}")
        return 0
    if not has_terminal():
        raise CorralError(
            f"{full_name(session)} runs in tmux, pane {printable(pane.name)}, and there is no terminal here to show it",
            hint=f"in a terminal: {from_outside}",
        )
    tell(f"it runs in tmux, pane {printable(pane.name)}")
    sys.stderr.flush()
    try:
        os.execvp(way.command[0], way.command)
    except OSError as error:
        raise CorralError(f"tmux can't be started: {error.strerror}") from error
