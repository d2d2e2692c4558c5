"""Claims weighed against each other: who wrote a record, which came with a copy, which its process has left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from corral.model.claim import AUTHORITY, Claim, ClaimKind
from corral.model.process import HostFacts, ProcessIdentity, Recognised
from corral.model.verdict import OUTRANKED, ClaimVerdict, Liveness

# --- who wrote a record that does not say so


_EXACT = (ClaimKind.REGISTRY, ClaimKind.JOURNAL)


def decide_by_writer(verdicts: Sequence[ClaimVerdict], host: HostFacts) -> list[ClaimVerdict]:
    """The same verdicts; but a runtime.json that a process wrote which we know exactly is judged as that process.

    By itself such a record has a number and a host name. In a container the number is not ours, and the name
    may be another: then it is `elsewhere` for ever, or taken for a process of ours with the same number.
    """
    known: Mapping[int, list[ClaimVerdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.claim.kind in _EXACT and verdict.claim.boot_id and verdict.claim.start_ticks is not None:
            known[verdict.claim.pid].append(verdict)
    return [_judge_by_writer(verdict, known.get(verdict.claim.pid, ()), host) for verdict in verdicts]


def _judge_by_writer(verdict: ClaimVerdict, known: Sequence[ClaimVerdict], host: HostFacts) -> ClaimVerdict:
    if verdict.liveness is Liveness.STALE or not is_foreign_v1(verdict.claim):
        return verdict
    writers = [other for other in known if _wrote(other.claim, verdict.claim, host)]
    # Two containers can have the same name and the same numbers: whoever is not proven dead may have written it.
    writer = next((one for one in writers if one.liveness is not Liveness.STALE), writers[0] if writers else None)
    if writer is None or verdict.identity == writer.identity is not None:
        return verdict
    return structs.replace(
        verdict,
        liveness=writer.liveness,
        rule="same-process",
        reason=f"the same process wrote its {writer.claim.kind}: {writer.reason}",
        identity=writer.identity,
        elsewhere=writer.elsewhere,
    )


def _wrote(writer: Claim, record: Claim, host: HostFacts) -> bool:
    """Whether the record was written by that process: between its start and its own last report on the session.

    On one machine no other process of that PID namespace has the number then. Hosts that share a home over a
    network may have one each, so there nothing is concluded. qwen 0.24.4 (2026-11) writes runtime.json before
    it registers and before its hooks report, at a start and at every switch.
    """
    began_at, written_at = _began_at(writer, host), record.written_at
    last_word = writer.written_at if writer.ended_at is None else writer.ended_at
    if began_at is None or written_at is None or last_word is None or record.on_network_fs:
        return False
    same_words = writer.hostname in (None, record.hostname) and writer.version in (None, record.version)
    return same_words and names_same(writer, record) and began_at <= written_at <= last_word


def _began_at(claim: Claim, host: HostFacts) -> float | None:
    """When the process of an exact claim began, in epoch seconds; None where its boot is not known well enough."""
    if claim.start_ticks is None:
        return None
    since_boot = claim.start_ticks / host.ticks_per_second
    if claim.written_at is not None and claim.boottime is not None:
        return claim.written_at - claim.boottime + since_boot
    return host.booted_at + since_boot if claim.boot_id == host.boot_id else None


# --- which came with a copy of a home


_BESIDE_SESSIONS = (ClaimKind.REGISTRY, ClaimKind.RUNTIME)


def refute_copies(
    verdicts: Sequence[ClaimVerdict], processes: Mapping[tuple[int, int], Recognised]
) -> list[ClaimVerdict]:
    """The same verdicts; but a record that a home carries with it counts only for that home.

    One that names the directory it was written into needs no other proof; any other counts only if its process is
    known to use this home. `processes` are the agents that run, by PID and start.
    """
    own_words: dict[ProcessIdentity, list[Claim]] = {}
    for verdict in verdicts:
        if verdict.liveness is Liveness.LIVE and verdict.identity is not None and _is_own_word(verdict.claim):
            own_words.setdefault(verdict.identity, []).append(verdict.claim)
    return [_judge_copy(verdict, processes, own_words) for verdict in verdicts]


def _is_own_word(claim: Claim) -> bool:
    """Whether it is certainly where its process wrote it."""
    return claim.kind is ClaimKind.JOURNAL or (claim.kind is ClaimKind.RUNTIME and claim.is_copy is False)


def _judge_copy(
    verdict: ClaimVerdict,
    processes: Mapping[tuple[int, int], Recognised],
    own_words: Mapping[ProcessIdentity, Sequence[Claim]],
) -> ClaimVerdict:
    claim, identity = verdict.claim, verdict.identity
    if verdict.liveness is not Liveness.LIVE or identity is None or claim.kind not in _BESIDE_SESSIONS:
        return verdict
    if claim.is_copy is False:
        return verdict
    process = processes.get((identity.pid, identity.start_ticks))
    home = process.home if process is not None else None
    if home is not None and home != claim.home:
        return verdict.refuted("copied", f"pid {identity.pid} uses {home}: this record came here with a copy")
    if claim.is_copy is None and home is not None:
        return verdict
    said = own_words.get(identity)
    if claim.is_copy and said and not any(names_same(one, claim) for one in said):
        reason = f"pid {identity.pid} wrote this record into the directory of another session: it was copied from there"
        return verdict.refuted("copied", reason)
    lacks = "nothing says that it uses this home" if home is None else "it wrote this record into another directory"
    reason = f"pid {identity.pid} runs, but {lacks}: the record may have come with a copy"
    return verdict.doubted("copied", reason)


# --- which its process has left behind


_DOUBTED_BY_CLOCK = ("tolerance", "clock-step")


def decide_superseded(verdicts: Sequence[ClaimVerdict]) -> list[ClaimVerdict]:
    """The same verdicts in the same order; but claims that their process has left behind do not hold.

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
    return [_judge_rival(verdict, live, by_pid, ended) for verdict in verdicts]


def _judge_rival(
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
        reason = f"pid {claim.pid} left the session after the record, according to its {left.kind}"
        return verdict.refuted("superseded", reason)
    rivals = [other for other in group if not names_same(other.claim, claim) and not other.claim.many]
    if (ranking := _newest(other for other in rivals if _outranks(other.claim))) is not None:
        return _outranked(verdict, ranking.claim)
    newest = _newest(other for other in rivals if is_foreign_v1(other.claim))
    if newest is None or (newest.claim.written_at or 0.0) < (claim.written_at or 0.0):
        return verdict
    if newest.claim.written_at == claim.written_at:
        reason = f"pid {claim.pid} named {newest.claim.session_id} at the same time: it left one of them"
        return verdict.doubted("tie", reason)
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
    return verdict.refuted("superseded", f"pid {by.pid} named {by.session_id} {later:.2f} s later")


def _outranked(verdict: ClaimVerdict, by: Claim) -> ClaimVerdict:
    return verdict.refuted(OUTRANKED, f"pid {by.pid} serves {by.session_id}, according to its {by.kind}")
