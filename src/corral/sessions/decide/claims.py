"""Claims made of other evidence: of a journal, of the log that a process keeps open, of a child that it started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from corral.model.claim import Claim, ClaimKind
from corral.model.journal import Journal, JournalEvent, JournalEventKind
from corral.model.open_sessions import current_positions
from corral.model.process import Opening, ProcessIdentity, Recognised
from corral.model.verdict import ClaimVerdict, Liveness

# --- of a journal


def current_sessions(journal: Journal) -> tuple[JournalEvent, ...]:
    """The starts of the sessions that the process serves, oldest first.

    That is the newest open one, or all open ones if it serves many.
    Empty when the process has left every session, or began none.
    """
    return tuple(journal.events[position] for position in _current(journal))


def claims_of(journal: Journal) -> list[Claim]:
    """One claim per session the process ever began, in the order of their newest start.

    A session it has left carries `ended_at`; so does one that it has open no longer because it moved on.
    """
    current = set(_current(journal))
    newest_start: dict[str, int] = {}
    newest_end: dict[str, JournalEvent] = {}
    for position, event in enumerate(journal.events):
        if event.event is JournalEventKind.START:
            newest_start.pop(event.session_id, None)
            newest_start[event.session_id] = position
            newest_end.pop(event.session_id, None)
        else:
            newest_end.setdefault(event.session_id, event)
    claims: list[Claim] = []
    for session_id, position in newest_start.items():
        start = journal.events[position]
        if position in current:
            claims.append(_claim_of_start(journal, start, None, None))
        elif end := newest_end.get(session_id):
            claims.append(_claim_of_start(journal, start, end.at, end.reason))
        else:
            moved = journal.events[_next_start(journal, position)]
            claims.append(_claim_of_start(journal, start, moved.at, "replaced"))
    return claims


def _current(journal: Journal) -> list[int]:
    pairs = ((event.event is JournalEventKind.START, event.session_id) for event in journal.events)
    return current_positions(pairs, journal.many)


def _next_start(journal: Journal, position: int) -> int:
    """Where the process moved on: open and not current means that a later start is open too."""
    later = range(position + 1, len(journal.events))
    return next(index for index in later if journal.events[index].event is JournalEventKind.START)


def _claim_of_start(journal: Journal, start: JournalEvent, ended_at: float | None, end_reason: str | None) -> Claim:
    return Claim(
        kind=ClaimKind.JOURNAL,
        provider=journal.provider,
        home=journal.home,
        scope=start.scope,
        session_id=start.session_id,
        path=journal.path,
        pid=journal.identity.pid,
        written_at=start.at,
        boottime=start.boottime,
        hostname=journal.hostname,
        boot_id=journal.identity.boot_id,
        pid_ns=journal.identity.pid_ns,
        start_ticks=journal.identity.start_ticks,
        owner_uid=journal.owner_uid,
        work_dir=start.work_dir,
        version=journal.version,
        model=start.model,
        source=start.source,
        ended_at=ended_at,
        end_reason=end_reason,
        many=journal.many,
    )


# --- of the log that a process keeps open


DISAGREE = "disagree"
"""The rule by which a claim is in doubt: the log of the same process names other sessions."""


def settle_logs(recognised: Iterable[Recognised]) -> dict[ProcessIdentity, tuple[Opening, ...]]:
    """For each process whose log is whole: the lines that may be its own.

    A line has one writer. Where a process is left with a single line, that is its own, and nobody else's: so it is
    taken from the others, which may leave one of them with a single line in turn.
    """
    logs = {one.identity: one.log for one in recognised if one.log is not None and one.log.whole}
    left = {identity: log.openings for identity, log in logs.items()}
    settled: set[ProcessIdentity] = set()
    while found := next((one for one, lines in left.items() if len(lines) == 1 and one not in settled), None):
        settled.add(found)
        (own,) = left[found]
        for other, lines in left.items():
            if other != found and logs[other].file == logs[found].file:
                left[other] = tuple(line for line in lines if line.place != own.place)
    return left


def log_claims(recognised: Sequence[Recognised]) -> list[Claim]:
    """One for each process whose log leaves a single session."""
    left = settle_logs(recognised)
    return [
        structs.replace(
            _claim_of_process(process, process.home, ClaimKind.LOG, process.log.pid, lines[0].session_id, lines[0].at),
            path=process.log.path,
            source="startup" if any(line.is_new for line in lines) else None,
        )
        for process in recognised
        if process.home is not None and process.log is not None
        if (lines := left.get(process.identity)) and len({line.session_id for line in lines}) == 1
    ]


def weigh_logs(verdicts: Sequence[ClaimVerdict], recognised: Iterable[Recognised]) -> list[ClaimVerdict]:
    """The same verdicts; but where a process's log and another record of it name different sessions, both are in doubt.

    A log does not say in which container its session is; where another record of the process does, that counts.
    """
    logs = {one: {line.session_id for line in lines} for one, lines in settle_logs(recognised).items()}
    others = [verdict for verdict in verdicts if _is_other_word(verdict)]
    scopes = {
        (verdict.identity, verdict.claim.session_id): verdict.claim.scope for verdict in others if verdict.claim.scope
    }
    refuted = {verdict.identity for verdict in others if _is_refuted(verdict, logs)}
    weighed: list[ClaimVerdict] = []
    for verdict in verdicts:
        claim = verdict.claim
        if _is_other_word(verdict) and _is_refuted(verdict, logs):
            verdict = verdict.doubted(
                DISAGREE, f"the log of pid {claim.pid} does not name it: it may serve another session"
            )
        elif claim.kind is ClaimKind.LOG and verdict.identity in refuted:
            reason = f"the log of pid {claim.pid} names it, and another record names another session"
            verdict = verdict.doubted(DISAGREE, reason)
        elif claim.kind is ClaimKind.LOG and (scope := scopes.get((verdict.identity, claim.session_id))):
            verdict = structs.replace(verdict, claim=structs.replace(claim, scope=scope))
        weighed.append(verdict)
    return weighed


def _is_other_word(verdict: ClaimVerdict) -> bool:
    """A live claim by which a process is said to serve one session; a launch only says what we asked for."""
    kind = verdict.claim.kind
    return (
        verdict.liveness is Liveness.LIVE and kind not in (ClaimKind.LOG, ClaimKind.LAUNCH) and not verdict.claim.many
    )


def _is_refuted(verdict: ClaimVerdict, logs: Mapping[ProcessIdentity, set[str]]) -> bool:
    named = logs.get(verdict.identity) if verdict.identity is not None else None
    return bool(named) and verdict.claim.session_id not in named


# --- of a child


def child_claims(recognised: Iterable[Recognised]) -> list[Claim]:
    """One for each process with a running child whose environment names the session it was started in."""
    return [
        structs.replace(
            _claim_of_process(process, process.home, ClaimKind.CHILD, said.parent_pid, said.session_id, said.at),
            path=f"/proc/{said.child_pid}/environ",
        )
        for process in recognised
        if process.home is not None and (said := process.told) is not None
    ]


def _claim_of_process(
    process: Recognised, home: str, kind: ClaimKind, pid: int, session_id: str, written_at: float
) -> Claim:
    """Of a process that runs: its identity is known exactly. `pid` is its number in its own namespace."""
    return Claim(
        kind=kind,
        provider=process.provider,
        home=home,
        scope=None,
        session_id=session_id,
        path="",
        pid=pid,
        written_at=written_at,
        boot_id=process.identity.boot_id,
        pid_ns=process.identity.pid_ns,
        start_ticks=process.identity.start_ticks,
        work_dir=process.work_dir,
        version=process.version,
    )
