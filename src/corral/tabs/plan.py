"""How to get back into a tab: pure decisions from what its processes said, what runs, and what its session allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from corral.model.claim import AUTHORITY, Claim, ClaimKind
from corral.model.journal import JournalEventKind
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.model.restore import Attach, Refusal, Refused, RestorePlan, Resume, Wait
from corral.model.session import Session
from corral.model.tab import Opened
from corral.model.terminal import Standing
from corral.sessions.decide.restore import refuse_live


class TabFacts(Struct, frozen=True, kw_only=True):
    """All that the decision rests on."""

    tab: str
    standing: Standing
    """What is left of its terminal."""
    last: SessionKey | None
    """The session that the provider named last for this tab's own process."""
    plan: RestorePlan | None
    """How that session is to be restored now; None when it is not on disk any more."""
    served_in: str | None = None
    """The tab of ours in which that session is open now."""
    restores: bool = True
    """Whether this provider has a proven way to resume."""
    title: str = "the CLI"
    damage: str | None = None
    """Why the record of the tab can't be read."""
    home_missing: str | None = None
    """The home that it was opened in, if that is gone."""


class ResumeTab(Struct, frozen=True):
    """Start the provider's program on this session, in a new terminal for the same tab."""

    key: SessionKey


TabPlan = Opened | ResumeTab | Refused


def plan_tab(facts: TabFacts) -> TabPlan:
    """The one way to open it, or why there is none; `Opened` where nothing has to be started."""
    if facts.standing is Standing.RUNNING:
        return Opened(tab=facts.tab, plan="attach")
    if (refused := refuse_tab(facts)) is not None:
        return refused
    assert facts.last is not None
    if facts.served_in is not None:
        return Opened(tab=facts.served_in, plan="attach")
    match facts.plan:
        case None:
            return _refuse(Refusal.TRANSCRIPT_MISSING, "its conversation is not on disk (any more)")
        case Attach():
            return refuse_live(facts.plan)
        case Wait():
            return Opened(tab=facts.tab, plan="wait")
        case Resume():
            return ResumeTab(facts.last)
        case Refused():
            return facts.plan


def refuse_tab(facts: TabFacts) -> Refused | None:
    """Why a tab that does not run can't be opened, whatever is true of its session."""
    if facts.standing is Standing.ELSEWHERE:
        return _refuse(Refusal.CLAIMED_ELSEWHERE, "its terminal belongs to another host or container")
    if facts.damage is not None:
        return _refuse(
            Refusal.IDENTITY_INVALID,
            f"the record of this tab can't be read: {facts.damage}",
            "open its conversation from the list of sessions, and close this tab",
        )
    if facts.home_missing is not None:
        return _refuse(Refusal.HOME_MISSING, f"its provider's home directory {facts.home_missing} is gone")
    if facts.last is None:
        return _refuse(
            Refusal.NEVER_IDENTIFIED,
            f"{facts.title} never reported which conversation this tab had",
            "start a fresh one, or open the conversation from the list of sessions",
        )
    if not facts.restores:
        return _refuse(Refusal.RESTORE_UNSUPPORTED, f"corral has no proven way to resume a session of {facts.title}")
    return None


def decide_last_session(processes: Iterable[ProcessIdentity], sessions: Sequence[Session]) -> Session | str:
    """The session that was named last for the first of these processes that any claim names; or why none is known.

    By the provider's registry, its lock, our journal or a runtime.json that names exactly this process (or was
    verified against it while it ran); never by our own launch, which says what was wanted and not what came of it.
    """
    for process in processes:
        named = [
            (session, judged.claim)
            for session in sessions
            for judged in session.verdict.evidence
            if judged.claim.kind is not ClaimKind.LAUNCH and (judged.pin == process or _names(judged.claim, process))
        ]
        if named:
            return _choose(named)
    return "nothing is left that says which session it had"


def _choose(named: Sequence[tuple[Session, Claim]]) -> Session | str:
    highest = min(AUTHORITY[claim.kind] for _, claim in named)
    heard = [(session, claim) for session, claim in named if AUTHORITY[claim.kind] == highest]
    # If only an end was lost, no other session came after it.
    if any(claim.missed is JournalEventKind.START for _, claim in heard):
        return "a report of its agent could not be recorded: it may have had another session last"
    still_open = {session.key for session, claim in heard if claim.ended_at is None}
    in_front = {session.key: session for session, claim in heard if claim.ended_at is None and claim.foreground}
    if len(in_front) == 1:
        return next(iter(in_front.values()))
    # Of several runtime.json of one process the newest counts: old writers do not clear the one before.
    if len(still_open) > 1 and highest != AUTHORITY[ClaimKind.RUNTIME]:
        return f"it had {len(still_open)} sessions open"
    return max(heard, key=lambda pair: _order(pair[1]))[0]


def _names(claim: Claim, process: ProcessIdentity) -> bool:
    """Exactly, field by field: a claim without a start does not identify a process."""
    if (claim.boot_id, claim.pid, claim.start_ticks) != (process.boot_id, process.pid, process.start_ticks):
        return False
    return claim.pid_ns in (None, process.pid_ns)


def _order(claim: Claim) -> tuple[bool, float, float]:
    """Sessions that were left come first, then by time: the last one counts."""
    return claim.ended_at is None, claim.ended_at or 0.0, claim.written_at or 0.0


def _refuse(reason: Refusal, message: str, *remedy: str) -> Refused:
    return Refused(reason=reason, message=message, remedy=remedy)
