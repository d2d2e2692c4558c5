"""Deciding a resume: the session as it is now, once every agent that may be about to open it has reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from corral.model.key import SessionKey
from corral.model.restore import Attach, Loss, Refusal, Refused, Resume, Wait
from corral.model.selection import Selection
from corral.model.session import Session
from corral.model.tab import Agree
from corral.providers.registry import find_provider
from corral.sessions.decide.attribution import YOUNG_S
from corral.sessions.decide.restore import refuse_live, refuse_starting
from corral.sessions.naming import find_by_key, find_session
from corral.sessions.survey import take_survey

_STEP_SECONDS = 0.5


def plan_resume(
    name: str, *, anyway: bool, agree: Agree, settled: bool, report: Callable[[str], None] = lambda _: None
) -> tuple[Session, Resume | Refused]:
    """The session of that name, and what a resume would start, or the refusal.

    `settled`: an agent that has just started may be about to open it, and corral waits for its first report.
    """
    session = find_session(name, anyway=anyway, probing=True)
    if settled and isinstance(session.restore, Resume) and session.verdict.awaited_pids:
        found = find_settled(session.key, anyway=anyway, report=report)
        if isinstance(found, Refused):
            return session, found
        session = found
    return session, decide_resume(session, agree)


def decide_resume(session: Session, agree: Agree) -> Resume | Refused:
    """A resume is refused where one would attach or wait, and where it would drop what nobody agreed to drop."""
    match plan := session.restore:
        case Refused(loss=Loss(), agreed=Resume() as resume) if agree(plan):
            return resume
        case Attach():
            return refuse_live(plan)
        case Wait():
            return refuse_starting(plan)
        case Resume() | Refused():
            return plan


def find_settled(key: SessionKey, *, anyway: bool, report: Callable[[str], None]) -> Session | Refused:
    """The session once every agent within reach of it that is about to open one has reported, ended, or stayed silent.

    Raises RefusedError when nothing is left of it.
    """
    session = find_by_key(key, anyway=anyway, probing=True, deleted=True)
    awaited: set[int] = set()
    deadline = time.monotonic() + YOUNG_S + _STEP_SECONDS
    while isinstance(session.restore, Resume) and (young := set(session.verdict.awaited_pids)):
        if time.monotonic() > deadline:
            break
        if young - awaited:
            awaited |= young
            report(f"waiting: pid {_name(young)} has not reported yet which session it opens")
        time.sleep(_STEP_SECONDS)
        session = find_by_key(key, anyway=anyway, probing=True, deleted=True)
    if anyway or not awaited or not isinstance(session.restore, Resume):
        return session
    nothing = Selection(states=frozenset())
    silent = {one.pid for one in take_survey(nothing, [find_provider(session.provider)]).no_session_yet}
    if still := awaited & silent:
        return _refuse_silent(_name(still))
    return session


def _name(pids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(pids)))


def _refuse_silent(pids: str) -> Refused:
    return Refused(
        reason=Refusal.MAYBE_OPEN,
        message=f"pid {pids} has just started, or is stopped, and may be about to open it",
        remedy=(
            f"look at pid {pids}: it may ask something first; then try again",
            "resume it anyway with --anyway, if you know that it is not open there",
        ),
    )
