"""Verdicts: what pure functions make of claims and records, always with evidence and reason."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, structs

from corral.model.claim import BadClaim, Claim
from corral.model.process import ProcessIdentity


class Liveness(StrEnum):
    """What is true of one claim."""

    LIVE = "live"
    STALE = "stale"
    """Proven dead, superseded or ended: the claim no longer holds."""
    REMOTE = "remote-host"
    UNKNOWN = "unknown"


OUTRANKED = "outranked"
"""The rule by which a claim yields to one of higher authority, of the same process, on another session."""


class ClaimVerdict(Struct, frozen=True, kw_only=True):
    """One claim, judged. `rule` is the machine's word ("reused", "pinned", …), `reason` the sentence."""

    claim: Claim
    liveness: Liveness
    rule: str
    reason: str
    identity: ProcessIdentity | None = None
    """Of a live claim: the process it was verified against."""
    pin: ProcessIdentity | None = None
    """Of a record without a start: the process that this record was verified against in an earlier survey."""
    dead_by: float | None = None
    """Of one whose process is dead: epoch seconds by which it was; None where that was not seen before."""
    elsewhere: bool = False
    """It belongs to another host or PID namespace and can't be checked from here."""

    def doubted(self, rule: str, reason: str) -> ClaimVerdict:
        """The same claim, which can be neither verified nor refuted after all."""
        return structs.replace(self, liveness=Liveness.UNKNOWN, rule=rule, reason=reason, identity=None)

    def refuted(self, rule: str, reason: str) -> ClaimVerdict:
        """The same claim, which does not hold after all."""
        return structs.replace(self, liveness=Liveness.STALE, rule=rule, reason=reason, identity=None)


class State(StrEnum):
    """Of a session, in the order of precedence."""

    LIVE = "live"
    PENDING = "pending"
    ELSEWHERE = "elsewhere"
    UNKNOWN = "unknown"
    ORPHANED = "orphaned"
    EMPTY = "empty"
    IDLE = "idle"


class Activity(StrEnum):
    """Of a live session, as far as its provider says."""

    BUSY = "busy"
    READY = "ready"
    WAITING = "waiting"


class SessionVerdict(Struct, frozen=True, kw_only=True):
    """The state of one session and everything it rests on."""

    state: State
    reason: str
    """One sentence that says why."""
    activity: Activity | None = None
    processes: tuple[ProcessIdentity, ...] = ()
    """The verified processes that serve it, earliest claim first."""
    may_be_served: bool = False
    """Some process could be serving it, though none is proven to: then nothing may open it unasked."""
    maybe_pids: tuple[int, ...] = ()
    """Of `unknown (maybe_open)`: the unattributed processes that could be serving it."""
    awaited_pids: tuple[int, ...] = ()
    """Processes that have just started and may be about to open it: a resume waits for their first report."""
    evidence: tuple[ClaimVerdict, ...] = ()
    bad_evidence: tuple[BadClaim, ...] = ()
    conflict: str | None = None
