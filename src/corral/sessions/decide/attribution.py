"""How far reports of agents can be relied on, and which running agents nothing accounts for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, structs

from corral.model.claim import Claim, ClaimKind
from corral.model.journal import JournalEventKind
from corral.model.process import ProcessIdentity, ProcessMode, Recognised
from corral.model.verdict import ClaimVerdict, Liveness

YOUNG_S = 30.0
"""How long a CLI may take from its start to its first report, on a busy machine."""


class HookCover(Struct, frozen=True, kw_only=True):
    """Since when every new process of a provider and home reports to us, as far as can be proven."""

    since: float
    """Epoch seconds: our hooks work without a gap, and their configuration has not changed, since then."""
    silence_s: float | None = None
    """How long after its start a process may go without a session; None where it always may."""
    servers_report: bool = False
    """A server reports each session that it opens, so that its silence says that it has none."""


class Attribution(Struct, frozen=True, kw_only=True):
    """The runs that no claim names, one process each."""

    unattributed: tuple[Recognised, ...] = ()
    no_session_yet: tuple[Recognised, ...] = ()
    young: tuple[Recognised, ...] = ()
    """Those without a session that may be about to open one: they have just begun, or just left another."""


def attribute(
    recognised: Sequence[Recognised],
    claimed: Collection[ProcessIdentity],
    cover: Mapping[tuple[str, str], HookCover],
    now: float = 0.0,
    distrusted: Collection[tuple[int, int]] = (),
    left: Mapping[ProcessIdentity, float] = MappingProxyType({}),
    complete: Mapping[tuple[str, str, ProcessMode], float] = MappingProxyType({}),
) -> Attribution:
    """A run is attributed when any of its processes made a claim that holds, or reported to our journal.

    `distrusted` are PIDs and start ticks of processes whose report can't be read or relied on: they may have any
    session. `left` are those that have reported the end of every session they had, and when they did. `complete` says
    for which provider, home and mode the CLI itself names every process that has a session, and how soon it does.
    """
    unattributed: list[Recognised] = []
    waiting: list[Recognised] = []
    young: list[Recognised] = []
    for run in group_runs(recognised):
        if any(process.identity in claimed for process in run):
            continue
        serving = find_serving(run)
        if serving.mode is ProcessMode.CLIENT:
            waiting.append(serving)
            continue
        covered = cover.get((serving.provider, serving.home)) if serving.home is not None else None
        began = min(process.started_at for process in run)
        left_at = max((left[process.identity] for process in run if process.identity in left), default=None)
        since = began if left_at is None else left_at
        may_be_silent = covered is not None and _may_be_silent(serving, covered, now - since)
        if left_at is None:
            reports = (
                covered is not None
                and covered.since <= began
                and not serving.never_reports
                and may_be_silent
                and not any((one.identity.pid, one.identity.start_ticks) in distrusted for one in run)
            )
        else:
            # It did report. If its CLI always has a session, we would know the next one by now.
            reports = covered is None or may_be_silent
        within_s = complete.get((serving.provider, serving.home or "", serving.mode))
        is_complete = within_s is not None and now - began > within_s
        if not (reports or serving.without_session or is_complete):
            unattributed.append(serving)
            continue
        if left_at is None:
            waiting.append(serving)
        if now - since <= YOUNG_S or any(process.is_stopped for process in run):
            young.append(serving)
    return Attribution(unattributed=tuple(unattributed), no_session_yet=tuple(waiting), young=tuple(young))


def group_runs(recognised: Sequence[Recognised]) -> list[list[Recognised]]:
    """The processes of each run together."""
    runs: dict[tuple[str, int], list[Recognised]] = {}
    for process in recognised:
        runs.setdefault((process.provider, process.group), []).append(process)
    return list(runs.values())


def find_serving(run: Sequence[Recognised]) -> Recognised:
    """Launcher levels share a group; the youngest of a run serves, unless it is only a copy of its parent."""
    return max(run, key=lambda one: (not one.is_copy, one.identity.start_ticks, one.identity.pid))


def _may_be_silent(process: Recognised, cover: HookCover, age_s: float) -> bool:
    if cover.silence_s is None or age_s <= cover.silence_s:
        return True
    return cover.servers_report and process.mode is ProcessMode.SERVER


# --- whether reports count


GAP = "gap"
"""The rule by which a report is not believed any more."""
WITNESS = "written"
"""The same, because somebody wrote to another session that the process can reach."""
_BEATS_MISSED = 4.5
"""CLIs give up a hook that takes too long, so a busy machine loses some."""
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
    """How often an open session sends a heartbeat there; None where it sends none."""


def find_gap(reported_at: float, reporting: Reporting | None) -> str | None:
    """Why something that a process reported then may be outdated by now; None when it is not."""
    if reporting is None:
        return "its hooks are not installed (any more)"
    if reporting.problem is not None:
        return f"its hooks do not work: {reporting.problem}"
    if reported_at < reporting.unbroken_since:
        return "its hooks did not work for some time after its last report"
    return None


def find_lost_beat(spoke_awake: float | None, reporting: Reporting | None, awake: float) -> str | None:
    """Why a process that sent heartbeats does not report any more; None when it does, or never sent any.

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
    reasons = {
        one: (JournalEventKind.START, f"reported it, but may have moved on: {why}") for one, why in outdated.items()
    }
    return _doubt_reports(verdicts, reasons, rule)


def doubt_missed(
    verdicts: Sequence[ClaimVerdict], missed: Mapping[ProcessIdentity, JournalEventKind]
) -> list[ClaimVerdict]:
    """The same verdicts; but a report of these processes was lost, so that the others prove nothing."""
    why = "sent a report that could not be recorded: it may have moved on"
    return _doubt_reports(verdicts, {one: (kind, why) for one, kind in missed.items()}, "missed")


def _doubt_reports(
    verdicts: Sequence[ClaimVerdict], doubts: Mapping[ProcessIdentity, tuple[JournalEventKind, str]], rule: str
) -> list[ClaimVerdict]:
    """By process: the kind of report that may be missing, and what is wrong, in words that follow its PID."""
    if not doubts:
        return list(verdicts)
    found: list[ClaimVerdict] = []
    for verdict in verdicts:
        claim = verdict.claim
        process = verdict.identity or verdict.pin or named_process(claim)
        if claim.kind in BY_HOOK and process is not None and process in doubts:
            kind, why = doubts[process]
            # Also of a process that is gone: which session it had last is not known.
            verdict = structs.replace(verdict, claim=structs.replace(claim, missed=kind))
            if verdict.liveness is Liveness.LIVE:
                verdict = verdict.doubted(rule, f"pid {claim.pid} {why}")
        found.append(verdict)
    return found


def named_process(claim: Claim) -> ProcessIdentity | None:
    """The process that a claim names in full; None for one that does not."""
    if claim.boot_id is None or claim.pid_ns is None or claim.start_ticks is None:
        return None
    return ProcessIdentity(claim.boot_id, claim.pid_ns, claim.pid, claim.start_ticks)


# --- writes as a witness: what no known process explains was written by somebody; a doubt, never a proof


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
