"""`corral run`, `attach` and `terminals`: agents in terminals that outlive this one, and how to get to them."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING

from corral.cli.command import Command
from corral.cli.output import ask, can_ask, print_json, print_lines, tell
from corral.cli.raw_terminal import Left, has_terminal, terminal_size, view
from corral.cli.screen import age, say_state, table, terminal_width, tilde
from corral.errors import CorralError, NotFound, NotReachable, Silent
from corral.hooks import install_hooks
from corral.machine.text import printable
from corral.model.hook_install import Outcome
from corral.model.key import spoken_id
from corral.model.restore import Refused
from corral.model.session import Session
from corral.model.terminal import Standing
from corral.model.whereabouts import InPane, InTab, InTerminal, Nowhere, Pane
from corral.providers.registry import find_provider
from corral.providers.settings import read_settings
from corral.sessions import appearance_of, full_name
from corral.tabs import (
    find_tab_started_on,
    find_way,
    forget_tab,
    list_tabs,
    look_at,
    report_tabs,
    start_tab,
    switch_client,
)
from corral.terminals import find_terminal, open_client, own_tab, say_end, terminals_dir

if TYPE_CHECKING:
    from corral.tabs import Tab

_DETACHED_SIZE = (120, 40)
_SIGNALLED = 128
_RUN = """\
Start a new session of an agent CLI in a terminal of corral's, which outlives
this one, and show it here.

examples:
  corral run kimi-cli                  in this directory
  corral run qwen-code -C ~/src/shop   in another one
  corral run kimi-code --detach        in the background
  corral run kimi-cli -- --model k2    with arguments for the CLI, after --

Ctrl-\\ leaves it running; corral attach comes back to it.

exit codes: the agent's own, or 128 + the signal that ended it · 0 detached ·
            1 refused · 2 usage"""
_ATTACH = """\
Go to a session where it runs: a terminal of corral's, or a pane of tmux.
Nothing is ever opened a second time.

examples:
  corral attach 5d3909df             go to the session, wherever it runs
  corral attach 3f0a9c1d2b4e5f60     go to a tab (corral terminals lists them)

Ctrl-\\ leaves; the agent goes on. Several viewers can be attached at once; the
size is that of the one used last. To set another key, in the config:
[terminals] detach_key = "ctrl-]"

exit codes: 0 detached · the agent's own, if it ends meanwhile · 1 not running,
            or can't be reached · 2 usage · 3 ambiguous · 4 not found"""
_TERMINALS = """\
List the terminals that corral keeps, each with the session that its provider
names for it.

examples:
  corral terminals             what runs there, and what has ended
  corral terminals --json      the same for programs
  corral terminals --forget 3f0a9c1d2b4e5f60

corral attach takes a TAB in place of a session.

exit codes: 0 ok · 2 usage; with --forget 1 it is running · 4 not found"""


# --- corral run


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("provider", metavar="PROVIDER", help="kimi-cli, qwen-code … (corral doctor lists them)")
    parser.add_argument("-C", dest="directory", metavar="DIR", default=".", help="where it works (default: here)")
    parser.add_argument("--detach", action="store_true", help="leave it in the background; print its tab")
    parser.add_argument("--yes", action="store_true", help="don't ask in a directory where corral started nothing yet")
    parser.add_argument("--install-hooks", action="store_true", help="install the hooks that this CLI needs, unasked")
    parser.add_argument("--no-hooks", action="store_true", help="don't offer to install hooks")
    parser.set_defaults(rest=[])


def run(args: argparse.Namespace) -> int:
    title = find_provider(args.provider).capabilities.title
    if not args.detach and not has_terminal():
        raise CorralError("there is no terminal here to show it in", hint="corral run … --detach starts it anyway")
    work_dir = os.path.realpath(os.path.expanduser(args.directory))
    size = _DETACHED_SIZE if args.detach else terminal_size()

    def agree(question: Refused) -> bool:
        return _agree(question, title, args)

    tab = start_tab(args.provider, work_dir, args.rest, size=size, agree=agree, report=tell)
    if args.detach:
        print(tab)
        return 0
    return attach_tab(tab, clear=False)


def _agree(question: Refused, title: str, args: argparse.Namespace) -> bool:
    if question.hookless is not None:
        _offer_hooks(args.provider, title, question.hookless, unasked=args.install_hooks, declined=args.no_hooks)
        return True
    if args.yes:
        return True
    if not can_ask():
        raise CorralError(question.message, hint="--yes starts it there")
    if not ask(f"{question.message}. Start {title} there?"):
        raise CorralError("nothing was started")
    return True


def _offer_hooks(provider: str, title: str, home: str, *, unasked: bool, declined: bool) -> None:
    """Without hooks such a CLI never reports its session, and its tab can't be restored."""
    if unasked or (
        not declined
        and can_ask()
        and ask(f"{title} reports its session only through hooks. Install them (corral hooks)?")
    ):
        (done,) = install_hooks(provider, [home])
        if done.outcome is Outcome.REFUSED:
            tell(f"the hooks were not installed: {done.message}")
        else:
            tell(f"hooks: {done.message} ({tilde(done.config_path)})")
            return
    tell(
        f"without hooks this tab is live-only: corral can show it while it runs, and not restore it "
        f"(corral hooks install {provider})"
    )


# --- corral attach


def _add_attach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="an id, a unique prefix of it, provider:id, or a tab")


def attach(args: argparse.Namespace) -> int:
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
        hint = f"a terminal was started on it, and corral can't see its session now: corral attach {tab}"
    return CorralError(f"{full_name(session)} is not known to run: {session.verdict.reason}", hint=hint)


def attach_tab(tab: str, *, clear: bool) -> int:
    """Show a terminal of corral's here. Returns the program's exit code if it ends, 0 after detaching."""
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
            raise CorralError(f"tmux did not switch: {problem}", hint=f"in a terminal of your own: {from_outside}")
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


# --- corral terminals


def _add_terminals(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")
    parser.add_argument("--forget", metavar="TAB", help="remove one that has ended or was lost from the list")


def list_terminals(args: argparse.Namespace) -> int:
    if args.forget is not None:
        return _forget(args.forget)
    found = list_tabs()
    if args.json:
        print_json(report_tabs(found))
        return 0
    print_lines(render(found.tabs, time.time(), terminal_width()) or ["no terminals: corral run PROVIDER starts one"])
    return 0


def _forget(name: str) -> int:
    tab = next((tab for tab in list_tabs([name]).tabs), None)
    if tab is None:
        raise NotFound(f"there is no terminal {name!r}", hint="corral terminals lists them")
    if tab.standing is Standing.RUNNING:
        raise CorralError(f"{name} is running", hint="corral kill ends its session")
    forget_tab(name)
    return 0


def render(tabs: tuple[Tab, ...], now: float, width: int) -> list[str]:
    """A table, empty without tabs."""
    if not tabs:
        return []
    rows = [("TAB", "STATE", "PROVIDER", "SESSION", "PID", "UP", "DIR")]
    rows += [_row(tab, now) for tab in tabs]
    return table(rows, (6, 3), width)


def _row(tab: Tab, now: float) -> tuple[str, ...]:
    binding, terminal = tab.binding, tab.terminal
    started_at = terminal.started_at if terminal and terminal.started_at else None
    return (
        tab.tab,
        _say_standing(tab, now),
        binding.provider if binding else "–",
        spoken_id(tab.session.session_id)[:8] if tab.session else (f"? {tab.reason}" if tab.reason else "–"),
        str(terminal.child.pid) if terminal and tab.standing is Standing.RUNNING else "–",
        age(now - started_at) if started_at and tab.standing is Standing.RUNNING else "–",
        tilde(binding.work_dir if binding else None),
    )


def _say_standing(tab: Tab, now: float) -> str:
    match tab.standing:
        case Standing.RUNNING:
            return say_state(appearance_of(tab.session), now) if tab.session else "running"
        case Standing.ENDED:
            status = tab.terminal.status if tab.terminal else None
            return f"ended ({status})" if status is not None and status >= 0 else say_end(status).partition(":")[0]
        case Standing.LOST:
            return "lost"
        case Standing.ELSEWHERE:
            return "elsewhere"


COMMANDS = {
    "run": Command(_RUN, _add_run, run),
    "attach": Command(_ATTACH, _add_attach, attach),
    "terminals": Command(_TERMINALS, _add_terminals, list_terminals),
}
