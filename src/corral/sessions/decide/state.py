"""The state of one session, from its record on disk, its judged claims, and what else might be serving it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from corral.model.claim import BadClaim, Claim, ClaimKind
from corral.model.process import ProcessIdentity
from corral.model.record import SessionRecord, TurnState
from corral.model.verdict import OUTRANKED, Activity, ClaimVerdict, Liveness, SessionVerdict, State

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
