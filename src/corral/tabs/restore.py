"""Getting back into tabs: what they were is reconciled with what is true now; one process per session, always."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import structs

from corral.model.key import SessionKey
from corral.model.refusal import RefusedError, refuse
from corral.model.restore import Attach, GoThere, Refusal, Refused, Wait
from corral.model.session import Session
from corral.model.tab import Agree, Opened
from corral.model.terminal import Standing
from corral.model.whereabouts import InPane, InTab, Whereabouts
from corral.providers.registry import find_provider
from corral.sessions.decide.restore import refuse_live, refuse_starting
from corral.sessions.naming import find_by_key, full_name
from corral.sidecar.processes import read_identity
from corral.state.bindings import Binding
from corral.tabs.listing import Tab, find_tab_started_on, list_tabs, read_tab
from corral.tabs.plan import ResumeTab, TabFacts, TabPlan, plan_tab, refuse_tab
from corral.tabs.start import Size, Starting
from corral.tabs.whereabouts import find_way, find_whereabouts

if TYPE_CHECKING:
    from collections.abc import Generator


class Restorer:
    """Opens tabs and sessions, for any number of callers at once. All calls block: use threads."""

    def __init__(self) -> None:
        self._turns: dict[str | SessionKey, threading.Lock] = {}
        self._turns_lock = threading.Lock()

    def open_tab(self, tab: str, *, size: Size, anyway: bool, agree: Agree, last: Tab | None) -> Opened:
        """Attach to its terminal, or resume its session in a new one for the same tab. Raises RefusedError.

        `last` is the tab as it was seen when its session was last decided: with it one survey is enough.
        """
        with self._turn(tab):
            found = _recall(read_tab(tab), last) or find_tab(tab)
            if found.session is None or found.standing is Standing.RUNNING or refuse_tab(_facts_of(found)):
                return _follow(plan_for(found), found)
            with ExitStack() as stack:
                starting = _enter(stack, found.session.key, anyway=anyway, agree=agree)
                if isinstance(starting, Opened):
                    return starting
                session = starting.look()
                found = structs.replace(found, session=session)
                plan = plan_for(found)
                if not isinstance(plan, ResumeTab) and not _is_loss(plan):
                    return _follow(plan, found)
                return Opened(tab=starting.resume_in_terminal(session, size, tab), plan="resume")

    def open_session(self, session: Session, *, size: Size, anyway: bool, agree: Agree, attach_only: bool) -> Opened:
        """Go where it is, or, unless `attach_only`, continue it in a tab of its own. Raises RefusedError."""
        if (opened := _go_where_it_is(session)) is not None:
            return opened
        if attach_only:
            raise refuse(Refusal.NOT_OPEN, "nothing is known to have it open, and nothing was started")
        with self._turn(session.key), ExitStack() as stack:
            starting = _enter(stack, session.key, anyway=anyway, agree=agree)
            if isinstance(starting, Opened):
                return starting
            session = starting.look()
            if (opened := _go_where_it_is(session)) is not None:
                return opened
            return Opened(tab=starting.resume_in_terminal(session, size, None), plan="resume")

    @contextmanager
    def _turn(self, name: str | SessionKey) -> Generator[None]:
        """A second click waits for the first, then finds its terminal."""
        with self._turns_lock:
            turn = self._turns.setdefault(name, threading.Lock())
        with turn:
            yield


def _follow(plan: TabPlan, found: Tab) -> Opened:
    """Where nothing is started."""
    if isinstance(plan, Opened):
        return plan
    assert isinstance(plan, Refused), "a tab without a session can't be resumed"
    raise RefusedError(_at(plan, _where_of(found.session)))


def _enter(stack: ExitStack, key: SessionKey, *, anyway: bool, agree: Agree) -> Starting | Opened:
    """Take the lock on its start; or its tab, if somebody else has just started it."""
    what = f"{full_name(key)} is not resumed"
    try:
        return stack.enter_context(Starting(key, what, anyway=anyway, agree=agree))
    except RefusedError as error:
        if error.refused.reason is Refusal.ALREADY_LIVE and (open_in := _find_open_tab(key)):
            return Opened(tab=open_in, plan="attach")
        raise


def _go_where_it_is(session: Session) -> Opened | None:
    """The tab that has it; None where nobody is known to. Raises RefusedError where it is open and we can't get in."""
    plan = session.restore
    if not isinstance(plan, Attach | Wait):
        return None
    where = _where_of(session)
    if isinstance(where, InTab):
        return Opened(tab=where.tab, plan="attach" if isinstance(plan, Attach) else "wait")
    raise RefusedError(_at(refuse_live(plan) if isinstance(plan, Attach) else refuse_starting(plan), where))


def find_tab(tab: str) -> Tab:
    """As its files and processes are now. Raises RefusedError when there is none."""
    found = list_tabs([tab]).tabs
    if not found:
        raise refuse(Refusal.NO_SUCH_TAB, f"there is no tab {tab}")
    return found[0]


def _recall(now: Tab | None, last: Tab | None) -> Tab | None:
    """The tab with the session that it had when it was last looked at; None where that may be another one by now."""
    if now is None or now.standing is Standing.RUNNING:
        return now
    if last is None or now.binding is None or now.damage is not None or last.binding != now.binding:
        return None
    if any(read_identity(one.pid) == one for one in now.binding.processes):
        return None  # what runs may have switched to another session
    return structs.replace(now, session=last.session, reason=last.reason)


def _is_loss(plan: TabPlan) -> bool:
    """Whether the only objection is a loss that the person may agree to."""
    return isinstance(plan, Refused) and plan.loss is not None


def plan_for(tab: Tab) -> TabPlan:
    """What opening this tab would do now."""
    return plan_tab(_facts_of(tab))


def _facts_of(tab: Tab) -> TabFacts:
    binding, last = tab.binding, tab.session
    provider = find_provider(binding.provider) if binding else None
    return TabFacts(
        tab=tab.tab,
        standing=tab.standing,
        last=last.key if last else None,
        plan=last.restore if last else None,
        served_in=_tab_of(last) if last and tab.standing is not Standing.RUNNING else None,
        restores=provider is not None and provider.capabilities.restore == "resume",
        title=provider.capabilities.title if provider else "its program",
        damage=tab.damage,
        home_missing=_missing_home(binding),
    )


def _missing_home(binding: Binding | None) -> str | None:
    """Only of an agent that was identified: before its first report there may not have been a home."""
    if binding is None or (binding.agent is None and not binding.previous) or os.path.isdir(binding.home):
        return None
    return binding.home


def _tab_of(session: Session) -> str | None:
    where = _where_of(session)
    return where.tab if isinstance(where, InTab) else None


def _find_open_tab(key: SessionKey) -> str | None:
    """Where a session is that somebody else has just started: in which tab its process runs, or was started for it."""
    session = find_by_key(key)
    return _tab_of(session) or (None if session.verdict.processes else find_tab_started_on(key))


def _where_of(session: Session | None) -> Whereabouts | None:
    return find_whereabouts(session.verdict.processes[-1]) if session and session.verdict.processes else None


def _at(refused: Refused, where: Whereabouts | None) -> Refused:
    """With the command that goes where the session is open, if there is one."""
    if not isinstance(where, InPane):
        return refused
    command = find_way(where.pane, {}).command or ()  # for a terminal that is not in a tmux
    return structs.replace(refused, go_there=GoThere(kind="tmux", target=where.pane.name, command=command))
