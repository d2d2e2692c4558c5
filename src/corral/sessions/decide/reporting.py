"""Whether what a process reported still counts: only while no report of it can have been lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from corral.model.claim import Claim, ClaimKind
from corral.model.journal import JournalEventKind
from corral.model.process import ProcessIdentity
from corral.model.verdict import ClaimVerdict, Liveness

GAP = "gap"
"""The rule by which a report is not believed any more."""
WITNESS = "written"
"""The same, because somebody wrote to another session that the process can reach."""
_BEATS_MISSED = 4.5
"""A hook that takes too long is given up, so that single ones are lost on a busy machine."""
BY_HOOK = (ClaimKind.JOURNAL, ClaimKind.RUNTIME)


class Reporting(Struct, frozen=True, kw_only=True):
    """Whether the hooks of one home work, and since when."""

    problem: str | None
    """Why agents that run there do not report; None while they do."""
    unbroken_since: float
    """The end of the last known gap, epoch seconds."""
    read_since: float
    """Epoch seconds: a process that began later has read the configuration as it is now."""
    beat_s: float | None = None
    """How often a session is heard of there, whatever happens in it; None where it is not."""


def find_gap(reported_at: float, reporting: Reporting | None) -> str | None:
    """Why something that a process reported then may be outdated by now; None when it is not."""
    if reporting is None:
        return "its hooks are not installed (any more)"
    if reporting.problem is not None:
        return f"its hooks do not work: {reporting.problem}"
    if reported_at < reporting.unbroken_since:
        return "its hooks were out of order after its last report"
    return None


def find_lost_beat(spoke_awake: float | None, reporting: Reporting | None, awake: float) -> str | None:
    """Why a process that was heard of again and again does not report any more; None when it does, or never was.

    Both times are seconds in which the machine was awake.
    """
    if spoke_awake is None or reporting is None or reporting.beat_s is None:
        return None
    missed = awake - spoke_awake > reporting.beat_s * _BEATS_MISSED
    return "its heartbeat has stopped" if missed else None


def doubt_outdated(
    verdicts: Sequence[ClaimVerdict], outdated: Mapping[ProcessIdentity, str], rule: str = GAP
) -> list[ClaimVerdict]:
    """The same verdicts; but what these processes reported does not prove any more what they serve now."""
    if not outdated:
        return list(verdicts)
    found: list[ClaimVerdict] = []
    for verdict in verdicts:
        process = verdict.identity or verdict.pin or named_process(verdict.claim)
        why = outdated.get(process) if process is not None and verdict.claim.kind in BY_HOOK else None
        found.append(verdict if why is None else _doubt(verdict, why, rule))
    return found


def named_process(claim: Claim) -> ProcessIdentity | None:
    """The process that a claim names in full; None for one that does not."""
    if claim.boot_id is None or claim.pid_ns is None or claim.start_ticks is None:
        return None
    return ProcessIdentity(claim.boot_id, claim.pid_ns, claim.pid, claim.start_ticks)


def _doubt(verdict: ClaimVerdict, why: str, rule: str) -> ClaimVerdict:
    # Also of a process that is gone: which session it had last is not known.
    verdict = structs.replace(verdict, claim=structs.replace(verdict.claim, missed=JournalEventKind.START))
    if verdict.liveness is not Liveness.LIVE:
        return verdict
    reason = f"pid {verdict.claim.pid} reported it, but may have moved on: {why}"
    return structs.replace(verdict, liveness=Liveness.UNKNOWN, rule=rule, reason=reason, identity=None)


def doubt_missed(
    verdicts: Sequence[ClaimVerdict], missed: Mapping[ProcessIdentity, JournalEventKind]
) -> list[ClaimVerdict]:
    """The same verdicts; but neither journal nor runtime.json proves any more what these processes serve now."""
    found: list[ClaimVerdict] = []
    for verdict in verdicts:
        process = verdict.identity or verdict.pin or named_process(verdict.claim)
        kind = missed.get(process) if process is not None and verdict.claim.kind in BY_HOOK else None
        found.append(verdict if kind is None else _doubt_missed(verdict, kind))
    return found


def _doubt_missed(verdict: ClaimVerdict, kind: JournalEventKind) -> ClaimVerdict:
    verdict = structs.replace(verdict, claim=structs.replace(verdict.claim, missed=kind))
    if verdict.liveness is not Liveness.LIVE:
        return verdict
    reason = f"a report of pid {verdict.claim.pid} could not be recorded: it may have moved on"
    return structs.replace(verdict, liveness=Liveness.UNKNOWN, rule="missed", reason=reason, identity=None)
