"""Records without an identity, where another record shows which process wrote them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.model.claim import Claim, ClaimKind
from corral.model.process import HostFacts
from corral.model.verdict import ClaimVerdict, Liveness
from corral.sessions.decide.superseded import is_foreign_v1, names_same

_EXACT = (ClaimKind.REGISTRY, ClaimKind.JOURNAL)


def decide_by_writer(verdicts: Sequence[ClaimVerdict], host: HostFacts) -> list[ClaimVerdict]:
    """The same verdicts; but a runtime.json that is surely of a process that we know exactly is judged as that one.

    By itself such a record has a number and a host name. In a container the number is not ours, and the name
    may be another: then it is `elsewhere` for ever, or taken for a process of ours with the same number.
    """
    known: Mapping[int, list[ClaimVerdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.claim.kind in _EXACT and verdict.claim.boot_id and verdict.claim.start_ticks is not None:
            known[verdict.claim.pid].append(verdict)
    return [_judge(verdict, known.get(verdict.claim.pid, ()), host) for verdict in verdicts]


def _judge(verdict: ClaimVerdict, known: Sequence[ClaimVerdict], host: HostFacts) -> ClaimVerdict:
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
    """Whether the record was written by that process: between its start and its own last word on the session.

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
