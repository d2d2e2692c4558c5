"""Getting back in: which tab has which session, starting, resuming, restoring and ending.

The door of the room: others call these functions, and each imports what it needs when it is called.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import NoReturn

    from corral.model.key import SessionKey
    from corral.model.process import ProcessIdentity
    from corral.model.restore import Refused, Resume
    from corral.model.session import Session, Survey
    from corral.model.tab import Agree, Progress
    from corral.model.whereabouts import Look, Pane, Way
    from corral.tabs.keeper import TabEvent as TabEvent
    from corral.tabs.keeper import TabKeeper as TabKeeper
    from corral.tabs.kill import Ended as Ended
    from corral.tabs.listing import Tab as Tab
    from corral.tabs.listing import Tabs as Tabs
    from corral.tabs.listing import TabsDocument
    from corral.tabs.start import Size


# --- which there are


def list_tabs(wanted: Collection[str] | None = None) -> Tabs:
    """Every tab, or those wanted, oldest first."""
    from corral.tabs.listing import list_tabs

    return list_tabs(wanted)


def report_tabs(found: Tabs) -> TabsDocument:
    """`corral terminals --json`."""
    from corral.tabs.listing import report_tabs

    return report_tabs(found)


def find_tab_started_on(key: SessionKey) -> str | None:
    """A running tab that was started on this session. It may have another one by now: for advice only."""
    from corral.tabs.listing import find_tab_started_on

    return find_tab_started_on(key)


def forget_tab(tab: str) -> None:
    """The person is done with it: what an ended program left is dropped. Raises OSError."""
    from corral.tabs.listing import forget_tab

    forget_tab(tab)


def keep_tabs(
    look: Callable[[], Survey],
    log_path: str,
    on_tabs: Callable[[Sequence[TabEvent]], None],
    on_progress: Callable[[Progress], None],
) -> TabKeeper:
    """The tabs of this state directory for one view that stays, with their order and a log of what became of them."""
    from corral.machine import places
    from corral.machine.event_log import EventLog
    from corral.tabs.keeper import LayoutFile, TabKeeper

    return TabKeeper(look, LayoutFile(places.state_dir()), EventLog(log_path), on_tabs, on_progress)


# --- where a session runs


def look_at(name: str | SessionKey) -> Look:
    """One session as it is now, and where the processes are that have it or may have it.

    By the name that a person types (raises NotFound, Ambiguous), or by its key (raises RefusedError).
    """
    from corral.tabs.whereabouts import look_at

    return look_at(name)


def find_way(pane: Pane, variables: Mapping[str, str]) -> Way:
    """How to get to a pane from a terminal with these variables."""
    from corral.tabs.whereabouts import find_way

    return find_way(pane, variables)


def switch_client(way: Way) -> str | None:
    """Switch the tmux in which we run to that pane; or why it did not switch."""
    from corral.tabs.whereabouts import switch_client

    return switch_client(list(way.command or ()))


# --- starting and resuming


def start_tab(
    provider: str, work_dir: str, arguments: Sequence[str], *, size: Size, agree: Agree, report: Callable[[str], None]
) -> str:
    """A fresh session in a terminal of its own; returns its tab. Raises RefusedError.

    `agree` is asked about what only a person can decide: `ask_trust`, `hooks_missing`.
    """
    from corral.tabs.start import start_tab

    return start_tab(provider, work_dir, arguments, size=size, agree=agree, report=report)


def plan_resume(name: str, *, anyway: bool, agree: Agree, settled: bool) -> tuple[Session, Resume | Refused]:
    """What `corral resume` would start, or the refusal.

    `settled`: an agent that has just started may be about to open it, and corral waits for its first report.
    """
    from corral.tabs.start import plan_resume

    return plan_resume(name, anyway=anyway, agree=agree, settled=settled)


def resume_in_place(name: str, *, anyway: bool, agree: Agree, report: Callable[[str], None]) -> NoReturn:
    """Replace this process by the agent on that session. Returns only by raising."""
    from corral.tabs.start import resume_in_place

    resume_in_place(name, anyway=anyway, agree=agree, report=report)


# --- ending


def end_tab(tab: str, ref: str | None) -> None:
    """Ask its holder to end the program; `ref` is the session that it must still have. Raises RefusedError."""
    from corral.tabs.kill import end_tab

    end_tab(tab, ref)


def find_to_kill(name: str | SessionKey, agreed: Session | None = None) -> Session:
    """A session that a verified process serves now, and that process serves no other. Raises RefusedError.

    `agreed` is the session as the person saw it: the same process must still serve it.
    """
    from corral.tabs.kill import find_to_kill

    return find_to_kill(name, agreed)


def kill_session(session: Session, report: Callable[[str], None]) -> list[Ended]:
    """End every process that serves it, as `find_to_kill` found it. Raises RefusedError."""
    from corral.tabs.kill import kill_session

    return kill_session(session, report)


def kill_process(identity: ProcessIdentity, report: Callable[[str], None]) -> Ended:
    """One process, step by step, its identity verified before each. Raises RefusedError if it can't be ended."""
    from corral.tabs.kill import kill_process

    return kill_process(identity, report)
