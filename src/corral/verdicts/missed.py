"""What is left of the word of a process when one of its reports was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.model.journal import JournalEventKind
from corral.model.process import ProcessIdentity
from corral.model.verdict import ClaimVerdict, Liveness
from corral.verdicts.reporting import BY_HOOK, named_process


def doubt_missed(
    verdicts: Sequence[ClaimVerdict], missed: Mapping[ProcessIdentity, JournalEventKind]
) -> list[ClaimVerdict]:
    """The same verdicts; but neither journal nor runtime.json proves any more what these processes serve now."""
    found: list[ClaimVerdict] = []
    for verdict in verdicts:
        process = verdict.identity or verdict.pin or named_process(verdict.claim)
        kind = missed.get(process) if process is not None and verdict.claim.kind in BY_HOOK else None
        found.append(verdict if kind is None else _doubt(verdict, kind))
    return found


def _doubt(verdict: ClaimVerdict, kind: JournalEventKind) -> ClaimVerdict:
    verdict = structs.replace(verdict, claim=structs.replace(verdict.claim, missed=kind))
    if verdict.liveness is not Liveness.LIVE:
        return verdict
    reason = f"a report of pid {verdict.claim.pid} could not be written down: it may have moved on"
    return structs.replace(verdict, liveness=Liveness.UNKNOWN, rule="missed", reason=reason, identity=None)
