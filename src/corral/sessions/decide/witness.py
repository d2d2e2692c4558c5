"""Writes as a witness: what no known process explains was written by somebody. That raises doubt, never belief."""

from __future__ import annotations

from collections.abc import Sequence

from corral.model.verdict import ClaimVerdict, Liveness

FLUSH_S = 30.0
"""How long after it reported that it left a session a process may still write its last records."""


def is_explained(written_at: float, claims: Sequence[ClaimVerdict]) -> bool:
    """Whether a process that is known to have had the session may have written a record of that time.

    One that left it may have until shortly after, a dead one until it was seen to be dead.
    """
    return any(_may_have_written(claim, written_at) for claim in claims)


def _may_have_written(verdict: ClaimVerdict, written_at: float) -> bool:
    claim = verdict.claim
    if claim.written_at is not None and written_at < claim.written_at - FLUSH_S:
        return False
    if claim.ended_at is not None:
        return written_at <= claim.ended_at + FLUSH_S
    if verdict.dead_by is not None:
        return written_at <= verdict.dead_by
    return verdict.liveness is not Liveness.UNKNOWN
