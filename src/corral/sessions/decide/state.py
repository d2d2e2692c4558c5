"""The state of one session, from its record, its judged claims and what else might serve it; and how views show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from corral.model.claim import BadClaim, Claim, ClaimKind
from corral.model.process import ProcessIdentity
from corral.model.record import SessionRecord, TurnState
from corral.model.session import Appearance, Colour, StateWord
from corral.model.verdict import OUTRANKED, Activity, ClaimVerdict, Liveness, SessionVerdict, State

if TYPE_CHECKING:
    from corral.model.session import Session

_IDLE = "its last turn ended, and nothing serves it"


def decide_state(
    record: SessionRecord | None,
    claims: Sequence[ClaimVerdict] = (),
    bad: Sequence[BadClaim] = (),
    maybe_pids: Sequence[int] = (),
    unjoined: Sequence[ClaimVerdict] = (),
    unseen: str | None = None,
    written: str | None = None,
) -> SessionVerdict:
    """Precedence: live, pending, elsewhere, unknown, orphaned, empty, idle.

    `maybe_pids` are unattributed processes that could have it open; `unjoined` are claims that could
    be this session's or another's of the same id; `unseen` says why running processes can't be seen at
    all; `written` says when somebody wrote to it whom nobody knows. Each raises doubt, none makes it live.
    """
    evidence = (*claims, *unjoined)
    holding = [claim for claim in claims if claim.liveness is Liveness.LIVE]
    live = [claim for claim in holding if claim.claim.kind is not ClaimKind.LAUNCH]
    if holding and not live:
        return SessionVerdict(
            state=State.PENDING,
            reason=_say_pending(holding[-1].claim),
            processes=_serving(holding),
            evidence=evidence,
            bad_evidence=tuple(bad),
        )
    if live:
        processes = _serving(live)
        return SessionVerdict(
            state=State.LIVE,
            reason=live[-1].reason if len(processes) == 1 else f"{len(processes)} processes serve it at once",
            activity=_activity(record, live),
            processes=processes,
            evidence=evidence,
            bad_evidence=tuple(bad),
            conflict=_conflict(evidence),
        )
    doubt = _find_doubt(claims, maybe_pids, unjoined, unseen, written)
    state, reason = doubt if doubt is not None else decide_resting(record)
    return SessionVerdict(
        state=state,
        reason=reason,
        may_be_served=doubt is not None,
        maybe_pids=tuple(maybe_pids) if state is State.UNKNOWN else (),
        evidence=evidence,
        bad_evidence=tuple(bad),
        conflict=_conflict(evidence),
    )


def _say_pending(launch: Claim) -> str:
    started = f"corral started it as pid {launch.pid}"
    if launch.silence is None:
        return f"{started}, and its provider has not reported it yet"
    advice = f"corral hooks install {launch.provider}, then start it again"
    return f"{started}, and nothing will confirm it: {launch.silence}. {advice}"


def _conflict(evidence: Sequence[ClaimVerdict]) -> str | None:
    """Two claims of one process that name different sessions: the lower one, and the one that overrules it."""
    for verdict in evidence:
        if verdict.rule == OUTRANKED:
            return f"{verdict.claim.kind} at {verdict.claim.path} says otherwise: {verdict.reason}"
    return None


def _find_doubt(
    claims: Sequence[ClaimVerdict],
    maybe_pids: Sequence[int],
    unjoined: Sequence[ClaimVerdict],
    unseen: str | None,
    written: str | None,
) -> tuple[State, str] | None:
    """Why some process could be serving it; None when nothing can."""
    if away := next((claim for claim in claims if claim.elsewhere), None):
        return State.ELSEWHERE, away.reason
    if doubt := next((claim for claim in claims if claim.liveness is Liveness.UNKNOWN), None):
        return State.UNKNOWN, doubt.reason
    if open_one := next((claim for claim in unjoined if claim.liveness is not Liveness.STALE), None):
        return (
            State.UNKNOWN,
            f"pid {open_one.claim.pid} serves a session of this id, and more than one exists",
        )
    if maybe_pids:
        named = ", ".join(map(str, maybe_pids))
        if written is not None:
            return State.UNKNOWN, f"written {written}, maybe by pid {named}"
        return State.UNKNOWN, f"maybe open in pid {named}: corral can't see which session it has"
    return (State.UNKNOWN, unseen) if unseen is not None else None


def decide_resting(record: SessionRecord | None) -> tuple[State, str]:
    """The state of a session that nothing can be serving."""
    if record is not None and record.durable and record.turn is TurnState.ENDED:
        return State.IDLE, _IDLE  # nearly all of them, so it goes first
    if record is None:
        return State.EMPTY, "nothing of it is on disk"
    match record.turn:
        case TurnState.OPEN | TurnState.IN_TOOL | TurnState.WAITING:
            return State.ORPHANED, "its last turn never ended, and nothing serves it"
        case TurnState.UNREADABLE if record.durable:
            return (
                State.UNKNOWN,
                "the end of its transcript can't be read, so its last turn may be unfinished",
            )
        case TurnState.NONE | TurnState.ENDED | TurnState.UNREADABLE:
            if not record.durable:
                return State.EMPTY, record.not_durable_reason or "its provider wrote nothing to resume"
            return State.IDLE, _IDLE
        case _:
            assert_never(record.turn)


def _serving(live: Sequence[ClaimVerdict]) -> tuple[ProcessIdentity, ...]:
    """Each process once, in the order in which they took the session."""
    ordered = sorted(live, key=lambda verdict: verdict.claim.written_at or 0.0)
    return tuple(dict.fromkeys(verdict.identity for verdict in ordered if verdict.identity is not None))


def _activity(record: SessionRecord | None, live: Sequence[ClaimVerdict]) -> Activity | None:
    """The provider's own word in a claim first, then what its transcript says; None where it does not say."""
    for verdict in live:
        if verdict.claim.activity in set(Activity):
            return Activity(verdict.claim.activity)
    if record is None:
        return None
    # A turn that was left open before any of these processes took the session is not theirs.
    taken_at = min((verdict.claim.written_at or 0.0 for verdict in live), default=0.0)
    if record.updated_at is not None and record.updated_at < taken_at:
        return Activity.READY
    match record.turn:
        case TurnState.OPEN:
            return Activity.BUSY
        case TurnState.WAITING:
            return Activity.WAITING
        case TurnState.ENDED | TurnState.NONE:
            return Activity.READY
        case TurnState.IN_TOOL | TurnState.UNREADABLE:
            return None
        case _:
            assert_never(record.turn)


# --- its word, sign and colour, whether it needs you, and its place in a list


STATE_WORDS = (
    StateWord(state=State.LIVE, activity=Activity.WAITING, word="waiting", sign="◆", colour=Colour.AMBER),
    StateWord(state=State.LIVE, activity=Activity.BUSY, word="busy", sign="◐", colour=Colour.BLUE),
    StateWord(state=State.LIVE, activity=Activity.READY, word="ready", sign="●", colour=Colour.GREEN),
    StateWord(state=State.LIVE, word="live", sign="●", colour=Colour.GREEN),
    StateWord(state=State.PENDING, word="starting", sign="◌", colour=Colour.GREY),
    StateWord(state=State.ORPHANED, word="lost", sign="✖", colour=Colour.RED),
    StateWord(state=State.UNKNOWN, word="unknown", sign="?", colour=Colour.VIOLET),
    StateWord(state=State.ELSEWHERE, word="elsewhere", sign="⇄", colour=Colour.GREY),
    StateWord(state=State.IDLE, word="idle", sign="○", colour=Colour.GREY),
    StateWord(state=State.EMPTY, word="empty", sign="·", colour=Colour.FAINT),
)
"""In the order of a list: those that run, those that were lost, those in doubt, the rest."""

_WORDS = {(one.state, one.activity): one for one in STATE_WORDS}
_WAITING, _LOST = 0, 1
_PLACES = {State.LIVE: 2, State.PENDING: 2, State.UNKNOWN: 3, State.ELSEWHERE: 4, State.ORPHANED: 5, State.IDLE: 5}
_LAST = 6


def decide_appearance(session: Session, *, dismissed: bool = False) -> Appearance:
    """`dismissed`: the person has dismissed this loss, so it no longer needs anybody."""
    state, activity, record = session.state, session.activity, session.record
    shown = _WORDS[state, activity if state is State.LIVE else None]
    word = shown.word
    since = lost_at = None
    needs_you, place = False, _PLACES.get(state, _LAST)
    match state:
        case State.LIVE if activity is Activity.READY:
            since = session.updated_at
        case State.LIVE if activity is not None:
            since = record.turn_started_at if record else None
            if activity is Activity.WAITING:
                needs_you, place = True, _WAITING
        case State.PENDING if session.silence is not None:
            word = "unconfirmed"
        case State.ORPHANED:
            lost_at = (record.updated_at or record.turn_started_at) if record else None
            if not dismissed:
                needs_you, place = True, _LOST
        case State.UNKNOWN if session.verdict.maybe_pids:
            word = "maybe open"
        case State.ELSEWHERE:
            word = session.elsewhere or word
        case State.IDLE:
            since = session.updated_at
        case _:
            pass
    return Appearance(
        word=word,
        sign=shown.sign,
        colour=shown.colour,
        since=since,
        lost_at=lost_at,
        needs_you=needs_you,
        order=(place, -_newest_change(session)),
    )


def _newest_change(session: Session) -> float:
    """Of a running session its start, since its last change would make it jump in the list; of others that change."""
    running = session.state in (State.LIVE, State.PENDING)
    return (session.pid_started_at if running else session.updated_at) or 0.0
