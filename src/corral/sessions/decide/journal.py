"""What a journal says: the sessions its process serves now, and those it has left."""

from __future__ import annotations

from corral.model.claim import Claim, ClaimKind
from corral.model.journal import Journal, JournalEvent, JournalEventKind
from corral.model.open_sessions import current_positions


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
            claims.append(_claim(journal, start, None, None))
        elif end := newest_end.get(session_id):
            claims.append(_claim(journal, start, end.at, end.reason))
        else:
            moved = journal.events[_next_start(journal, position)]
            claims.append(_claim(journal, start, moved.at, "replaced"))
    return claims


def _current(journal: Journal) -> list[int]:
    pairs = ((event.event is JournalEventKind.START, event.session_id) for event in journal.events)
    return current_positions(pairs, journal.many)


def _next_start(journal: Journal, position: int) -> int:
    """Where the process moved on: open and not current means that a later start is open too."""
    later = range(position + 1, len(journal.events))
    return next(index for index in later if journal.events[index].event is JournalEventKind.START)


def _claim(journal: Journal, start: JournalEvent, ended_at: float | None, end_reason: str | None) -> Claim:
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
