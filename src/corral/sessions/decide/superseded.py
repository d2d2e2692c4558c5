"""Which of several sessions one process serves now, where only the records' own order can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from corral.model.claim import AUTHORITY, Claim, ClaimKind
from corral.model.process import ProcessIdentity
from corral.model.verdict import OUTRANKED, ClaimVerdict, Liveness

_DOUBTED_BY_CLOCK = ("tolerance", "clock-step")


def decide_superseded(verdicts: Sequence[ClaimVerdict]) -> list[ClaimVerdict]:
    """The same verdicts in the same order, less the claims that their process has left behind.

    A claim yields to one of higher authority by the same process on another session; among foreign v1 files
    (no identity of their own), to a newer one. Claims of a process that serves many sessions by nature
    neither supersede nor are superseded.
    """
    live: dict[ProcessIdentity, list[ClaimVerdict]] = {}
    for verdict in verdicts:
        if verdict.liveness is Liveness.LIVE and verdict.identity is not None:
            live.setdefault(verdict.identity, []).append(verdict)
    by_pid: dict[int, list[ClaimVerdict]] = {}
    for identity, group in live.items():
        by_pid.setdefault(identity.pid, []).extend(group)
    ended = [verdict.claim for verdict in verdicts if verdict.claim.ended_at is not None]
    return [_judge(verdict, live, by_pid, ended) for verdict in verdicts]


def _judge(
    verdict: ClaimVerdict,
    live: dict[ProcessIdentity, list[ClaimVerdict]],
    by_pid: dict[int, list[ClaimVerdict]],
    ended: Sequence[Claim],
) -> ClaimVerdict:
    claim = verdict.claim
    if claim.many:
        return verdict
    if not is_foreign_v1(claim):
        return _yield_to_authority(verdict, live)
    if verdict.liveness is Liveness.UNKNOWN and verdict.rule in _DOUBTED_BY_CLOCK:
        # Either its process is dead, or it is the one that has since named another session: both end it.
        successor = _newest(other for other in by_pid.get(claim.pid, []) if _follows(other.claim, claim))
        return verdict if successor is None else _superseded(verdict, successor.claim)
    if verdict.liveness is not Liveness.LIVE or verdict.identity is None:
        return verdict
    group = live[verdict.identity]
    if any(names_same(other.claim, claim) and _outranks(other.claim) for other in group):
        return verdict
    if (left := _left(verdict.identity, claim, ended)) is not None:
        reason = f"pid {claim.pid} left the session after the record, says its {left.kind}"
        return _stale(verdict, reason)
    rivals = [other for other in group if not names_same(other.claim, claim) and not other.claim.many]
    if (ranking := _newest(other for other in rivals if _outranks(other.claim))) is not None:
        return _outranked(verdict, ranking.claim)
    newest = _newest(other for other in rivals if is_foreign_v1(other.claim))
    if newest is None or (newest.claim.written_at or 0.0) < (claim.written_at or 0.0):
        return verdict
    if newest.claim.written_at == claim.written_at:
        reason = f"pid {claim.pid} named {newest.claim.session_id} at the same time: one of them was left"
        return structs.replace(verdict, liveness=Liveness.UNKNOWN, rule="tie", reason=reason, identity=None)
    return _superseded(verdict, newest.claim)


def _yield_to_authority(verdict: ClaimVerdict, live: dict[ProcessIdentity, list[ClaimVerdict]]) -> ClaimVerdict:
    claim = verdict.claim
    if verdict.liveness is not Liveness.LIVE or verdict.identity is None:
        return verdict
    for other in live[verdict.identity]:
        higher = AUTHORITY[other.claim.kind] < AUTHORITY[claim.kind]
        if higher and not other.claim.many and not names_same(other.claim, claim):
            return _outranked(verdict, other.claim)
    return verdict


def is_foreign_v1(claim: Claim) -> bool:
    """A runtime.json that does not say which process its number means."""
    return claim.kind is ClaimKind.RUNTIME and (claim.boot_id is None or claim.start_ticks is None)


def _outranks(claim: Claim) -> bool:
    return AUTHORITY[claim.kind] < AUTHORITY[ClaimKind.RUNTIME]


def names_same(one: Claim, other: Claim) -> bool:
    """Whether two claims are about one session, as far as both say where it is."""
    return (one.provider, one.home, one.session_id) == (other.provider, other.home, other.session_id) and (
        one.scope == other.scope or None in (one.scope, other.scope)
    )


def _follows(later: Claim, earlier: Claim) -> bool:
    if later.many or later.written_at is None or earlier.written_at is None or names_same(later, earlier):
        return False
    return later.written_at > earlier.written_at


def _newest(verdicts: Iterable[ClaimVerdict]) -> ClaimVerdict | None:
    return max(verdicts, key=lambda verdict: verdict.claim.written_at or 0.0, default=None)


def _left(identity: ProcessIdentity, claim: Claim, ended: Sequence[Claim]) -> Claim | None:
    """The exact report that this process left this session, later than the record says it was there."""
    for report in ended:
        if (
            (report.boot_id, report.pid, report.start_ticks) == (identity.boot_id, identity.pid, identity.start_ticks)
            and names_same(report, claim)
            and (report.ended_at or 0.0) >= (claim.written_at or 0.0)
        ):
            return report
    return None


def _superseded(verdict: ClaimVerdict, by: Claim) -> ClaimVerdict:
    later = (by.written_at or 0.0) - (verdict.claim.written_at or 0.0)
    return _stale(verdict, f"pid {by.pid} named {by.session_id} {later:.2f} s later")


def _outranked(verdict: ClaimVerdict, by: Claim) -> ClaimVerdict:
    return _stale(verdict, f"pid {by.pid} serves {by.session_id}, says its {by.kind}", OUTRANKED)


def _stale(verdict: ClaimVerdict, reason: str, rule: str = "superseded") -> ClaimVerdict:
    return structs.replace(verdict, liveness=Liveness.STALE, rule=rule, reason=reason, identity=None)
