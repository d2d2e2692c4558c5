"""What is left of the word of a process when one of its reports was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.model.claim import Claim, ClaimKind
from corral.model.journal import JournalEventKind
from corral.model.process import ProcessIdentity
from corral.model.verdict import ClaimVerdict, Liveness

_BY_HOOK = (ClaimKind.JOURNAL, ClaimKind.RUNTIME)


def doubt_missed(
    verdicts: Sequence[ClaimVerdict], missed: Mapping[ProcessIdentity, JournalEventKind]
) -> list[ClaimVerdict]:
    """The same verdicts; but neither journal nor runtime.json proves any more what these processes serve now."""
    found: list[ClaimVerdict] = []
    for verdict in verdicts:
        process = verdict.identity or verdict.pin or _named_by(verdict.claim)
        kind = missed.get(process) if process is not None and verdict.claim.kind in _BY_HOOK else None
        found.append(verdict if kind is None else _doubt(verdict, kind))
    return found


def _named_by(claim: Claim) -> ProcessIdentity | None:
    if claim.boot_id is None or claim.pid_ns is None or claim.start_ticks is None:
        return None
    return ProcessIdentity(claim.boot_id, claim.pid_ns, claim.pid, claim.start_ticks)


def _doubt(verdict: ClaimVerdict, kind: JournalEventKind) -> ClaimVerdict:
    verdict = structs.replace(verdict, claim=structs.replace(verdict.claim, missed=kind))
    if verdict.liveness is not Liveness.LIVE:
        return verdict
    reason = f"a report of pid {verdict.claim.pid} could not be written down: it may have moved on"
    return structs.replace(verdict, liveness=Liveness.UNKNOWN, rule="missed", reason=reason, identity=None)
