"""Records that came with a copy: a copied home names the processes of the original, which serve nothing here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.model.claim import ClaimKind
from corral.model.process import Recognised
from corral.model.verdict import ClaimVerdict, Liveness

_BESIDE_SESSIONS = (ClaimKind.REGISTRY, ClaimKind.RUNTIME)


def refute_copies(
    verdicts: Sequence[ClaimVerdict], processes: Mapping[tuple[int, int], Recognised]
) -> list[ClaimVerdict]:
    """The same verdicts; but a record that a home carries with it counts only for that home.

    One that names the directory it was written into tells by itself; any other is believed only if its process is
    known to use this home. `processes` are the agents that run, by PID and start.
    """
    return [_judge(verdict, processes) for verdict in verdicts]


def _judge(verdict: ClaimVerdict, processes: Mapping[tuple[int, int], Recognised]) -> ClaimVerdict:
    claim, identity = verdict.claim, verdict.identity
    if verdict.liveness is not Liveness.LIVE or identity is None or claim.kind not in _BESIDE_SESSIONS:
        return verdict
    if claim.is_copy is False:
        return verdict
    process = processes.get((identity.pid, identity.start_ticks))
    home = process.home if process is not None else None
    if home is not None and home != claim.home:
        reason = f"pid {identity.pid} uses {home}: this record came here with a copy"
        return structs.replace(verdict, liveness=Liveness.STALE, rule="copied", reason=reason, identity=None)
    if claim.is_copy is None and home is not None:
        return verdict
    reason = f"pid {identity.pid} runs, but nothing says that it uses this home: the record may have come with a copy"
    return structs.replace(verdict, liveness=Liveness.UNKNOWN, rule="copied", reason=reason, identity=None)
