"""Records that came with a copy: a copied home names the processes of the original, which serve nothing here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.model.claim import Claim, ClaimKind
from corral.model.process import ProcessIdentity, Recognised
from corral.model.verdict import ClaimVerdict, Liveness
from corral.sessions.decide.superseded import names_same

_BESIDE_SESSIONS = (ClaimKind.REGISTRY, ClaimKind.RUNTIME)


def refute_copies(
    verdicts: Sequence[ClaimVerdict], processes: Mapping[tuple[int, int], Recognised]
) -> list[ClaimVerdict]:
    """The same verdicts; but a record that a home carries with it counts only for that home.

    One that names the directory it was written into tells by itself; any other is believed only if its process is
    known to use this home. `processes` are the agents that run, by PID and start.
    """
    own_words: dict[ProcessIdentity, list[Claim]] = {}
    for verdict in verdicts:
        if verdict.liveness is Liveness.LIVE and verdict.identity is not None and _is_own_word(verdict.claim):
            own_words.setdefault(verdict.identity, []).append(verdict.claim)
    return [_judge(verdict, processes, own_words) for verdict in verdicts]


def _is_own_word(claim: Claim) -> bool:
    """Whether it is surely where its process put it."""
    return claim.kind is ClaimKind.JOURNAL or (claim.kind is ClaimKind.RUNTIME and claim.is_copy is False)


def _judge(
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
        return _refute(verdict, f"pid {identity.pid} uses {home}: this record came here with a copy")
    if claim.is_copy is None and home is not None:
        return verdict
    told = own_words.get(identity)
    if claim.is_copy and told and not any(names_same(one, claim) for one in told):
        reason = f"pid {identity.pid} wrote this record into the directory of another session: it was copied from there"
        return _refute(verdict, reason)
    lacks = "nothing says that it uses this home" if home is None else "it wrote this record into another directory"
    reason = f"pid {identity.pid} runs, but {lacks}: the record may have come with a copy"
    return structs.replace(verdict, liveness=Liveness.UNKNOWN, rule="copied", reason=reason, identity=None)


def _refute(verdict: ClaimVerdict, reason: str) -> ClaimVerdict:
    return structs.replace(verdict, liveness=Liveness.STALE, rule="copied", reason=reason, identity=None)
