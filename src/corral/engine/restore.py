"""Getting back into tabs: what they were is reconciled with what is true now; one process per session, always."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from corral.engine.catalogue import find_provider
from corral.engine.launch import NotStarted
from corral.engine.naming import find_session
from corral.engine.opening import Size, open_resumed
from corral.engine.reference import session_ref
from corral.engine.resume import agree_from_line
from corral.engine.tabs import Tab, find_tab_started_on, list_tabs
from corral.engine.whereabouts import InTab, Whereabouts, find_whereabouts
from corral.errors import CorralError
from corral.model.key import SessionKey
from corral.model.restore import Attach, Loss, Refusal, Refused, Remedy, Wait
from corral.model.session import Session
from corral.store.bindings import Binding, Bindings
from corral.system import places
from corral.terminals.directory import Standing
from corral.verdicts.restore_plan import refuse_live
from corral.verdicts.tab_plan import (
    AttachTab,
    Hold,
    ResumeTab,
    TabFacts,
    TabPlan,
    WaitForTab,
    plan_tab,
)

if TYPE_CHECKING:
    from collections.abc import Generator


class Opened(Struct, frozen=True, kw_only=True):
    """The tab to look at, and how it came about: attach, resume or wait."""

    tab: str
    plan: str


class NotOpened(Exception):
    """Why not, and where it is open, if it is."""

    def __init__(
        self,
        reason: str,
        message: str,
        remedy: tuple[Remedy, ...] = (),
        where: Whereabouts | None = None,
        loss: Loss | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.remedy = remedy
        self.where = where
        self.loss = loss
        """What the person may agree to lose."""


def not_opened(refused: Refused, where: Whereabouts | None = None) -> NotOpened:
    return NotOpened(refused.reason, refused.message, refused.remedy, where, refused.loss)


class Restorer:
    """Opens tabs and sessions, for any number of callers at once. All calls block: use threads."""

    def __init__(self) -> None:
        self._turns: dict[str, threading.Lock] = {}
        self._turns_lock = threading.Lock()

    def open_tab(
        self,
        tab: str,
        *,
        size: Size,
        anyway: bool = False,
        trust: bool,
        drop_from: int | None = None,
        tell: Callable[[str], None],
    ) -> Opened:
        """Attach to its terminal, or resume its session in a new one for the same tab. Raises NotOpened."""
        with self._turn(tab):
            found = find_tab(tab)
            plan = plan_for(found)
            match plan:
                case AttachTab():
                    return Opened(tab=plan.tab, plan="attach")
                case WaitForTab():
                    return Opened(tab=tab, plan="wait")
                case Refused() if anyway and found.session is not None and _may_be_overridden(plan, found.session):
                    return self._resume(
                        found.session.key, tab=tab, size=size, anyway=True, drop_from=drop_from, tell=tell
                    )
                case Refused():
                    raise not_opened(plan, _where_of(found.session))
                case ResumeTab():
                    if not trust and found.binding is not None:
                        ask_first(found.binding.work_dir)
                    return self._resume(plan.key, tab=tab, size=size, anyway=anyway, drop_from=drop_from, tell=tell)

    def open_session(
        self,
        session: Session,
        *,
        size: Size,
        anyway: bool,
        trust: bool,
        drop_from: int | None = None,
        tell: Callable[[str], None],
        attach_only: bool = False,
    ) -> Opened:
        """Go where it is, or, unless `attach_only`, continue it in a tab of its own. Raises NotOpened.

        `drop_from` agrees that the provider drops a transcript from this damaged line on, and from no other.
        """
        plan = session.restore
        if isinstance(plan, Attach | Wait):
            where = _where_of(session)
            if isinstance(where, InTab):
                return Opened(tab=where.tab, plan="attach" if isinstance(plan, Attach) else "wait")
            refused = refuse_live(plan) if isinstance(plan, Attach) else _starting(plan.pid)
            raise not_opened(refused, where)
        if attach_only:
            raise NotOpened("not_open", "nothing is known to have it open, and nothing was started")
        with self._turn(full_name_of(session.key)):
            return self._resume(
                session.key, tab=None, size=size, anyway=anyway, ask=not trust, drop_from=drop_from, tell=tell
            )

    def _resume(
        self,
        key: SessionKey,
        *,
        tab: str | None,
        size: Size,
        anyway: bool,
        ask: bool = False,
        drop_from: int | None = None,
        tell: Callable[[str], None],
    ) -> Opened:
        name = full_name_of(key)
        try:
            # Only about what would be started: nobody is asked to trust a directory, and then refused.
            agree = ask_first if ask else None
            consent = agree_from_line(drop_from)
            started = open_resumed(name, anyway=anyway, size=size, tell=tell, tab=tab, agree=agree, consent=consent)
        except NotStarted as error:
            if error.refused.reason is Refusal.ALREADY_LIVE and (open_in := _find_open_tab(key)):
                return Opened(tab=open_in, plan="attach")
            raise not_opened(error.refused) from error
        except CorralError as error:
            raise NotOpened(Refusal.TRANSCRIPT_MISSING, error.message) from error
        return Opened(tab=started.tab, plan="resume")

    @contextmanager
    def _turn(self, name: str) -> Generator[None]:
        """A second click waits for the first, then finds its terminal."""
        with self._turns_lock:
            turn = self._turns.setdefault(name, threading.Lock())
        with turn:
            yield


def _may_be_overridden(plan: Refused, session: Session) -> bool:
    """Whether it is about the session, not about the tab's own terminal, and about what only a person can know."""
    return plan == session.restore and plan.reason in (Refusal.MAYBE_OPEN, Refusal.CLAIMED_ELSEWHERE)


def full_name_of(key: SessionKey) -> str:
    where = f"{key.provider}@{key.home}"
    return f"{where}:{key.scope}/{key.session_id}" if key.scope else f"{where}:{key.session_id}"


def find_tab(tab: str) -> Tab:
    """As its files and processes are now. Raises NotOpened when there is none."""
    found = list_tabs([tab]).tabs
    if not found:
        raise NotOpened("no_such_tab", f"there is no tab {tab}")
    return found[0]


def has_session(tab: str, ref: str) -> bool:
    """Whether its provider says so now."""
    found = list_tabs([tab]).tabs
    return bool(found) and found[0].session is not None and session_ref(found[0].session.key) == ref


def plan_for(tab: Tab) -> TabPlan:
    """What opening this tab would do now."""
    binding, last = tab.binding, tab.session
    provider = find_provider(binding.provider) if binding else None
    return plan_tab(
        TabFacts(
            tab=tab.tab,
            hold=Hold(tab.standing),
            last=last.key if last else None,
            plan=last.restore if last else None,
            served_in=_tab_of(last) if last and tab.standing is not Standing.RUNNING else None,
            restores=provider is not None and provider.capabilities.restore == "resume",
            title=provider.capabilities.title if provider else "its program",
            damage=tab.damage,
            home_missing=_missing_home(binding),
        )
    )


def _missing_home(binding: Binding | None) -> str | None:
    """Of an agent that was identified: before its first word there may never have been a home."""
    if binding is None or (binding.agent is None and not binding.previous) or os.path.isdir(binding.home):
        return None
    return binding.home


def ask_first(directory: str) -> None:
    """Raises NotOpened where nobody has agreed to run agents: what lies in a directory can make them run things."""
    if not Bindings(places.state_dir()).has_opened(directory):
        raise NotOpened(
            "ask_trust",
            f"corral has started nothing in {directory} before",
            ("start it there only if you trust what lies in it",),
        )


def _tab_of(session: Session) -> str | None:
    if not session.verdict.processes:
        return None
    where = find_whereabouts(session.verdict.processes[-1])
    return where.tab if isinstance(where, InTab) else None


def _find_open_tab(key: SessionKey) -> str | None:
    """Where a session is that somebody else has just started: in which tab its process runs, or was started for it."""
    session = find_session(full_name_of(key))
    return _tab_of(session) or (None if session.verdict.processes else find_tab_started_on(key))


def _where_of(session: Session | None) -> Whereabouts | None:
    return find_whereabouts(session.verdict.processes[-1]) if session and session.verdict.processes else None


def _starting(pid: int) -> Refused:
    return Refused(reason=Refusal.ALREADY_LIVE, message=f"pid {pid} is starting it right now")
