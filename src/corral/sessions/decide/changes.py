"""What happened between two surveys: a pure comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.model.change import AgentsChanged, Change, SessionChange, Switched
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.model.session import AgentProcess, Session
from corral.model.verdict import State

_SERVED = (State.LIVE, State.PENDING)


Served = Mapping[ProcessIdentity, frozenset[SessionKey]]


def find_changes(
    before: Mapping[SessionKey, Session], after: Mapping[SessionKey, Session], served_last: Served | None = None
) -> list[SessionChange | Switched]:
    """Switches first: whoever follows a process wants to know where it is before the rest.

    `served_last` is what each process that runs on served when it last served anything: between the end of one
    session and the start of the next it serves none, and a look may fall there.
    """
    changes: list[SessionChange | Switched] = []
    for key, session in after.items():
        old = before.get(key)
        if old is None:
            changes.append(SessionChange(change=Change.APPEARED, session=session))
        elif old is not session and _face(old) != _face(session):
            ended = old.state in _SERVED and session.state not in _SERVED
            changes.append(SessionChange(change=Change.ENDED if ended else Change.CHANGED, session=session))
    for key, session in before.items():
        if key not in after:
            changes.append(SessionChange(change=Change.GONE, session=session))
    then = {**(served_last or {}), **find_served(before)}
    return [*_find_switches(then, find_served(after)), *changes]


def find_agent_change(before: AgentsChanged, after: AgentsChanged) -> AgentsChanged | None:
    """None when they are the same; the clock that a start is computed from moves a little between surveys."""
    same = _without_fractions(before.unattributed) == _without_fractions(after.unattributed)
    same = same and _without_fractions(before.no_session_yet) == _without_fractions(after.no_session_yet)
    return None if same else after


def _without_fractions(agents: Sequence[AgentProcess]) -> list[AgentProcess]:
    return [structs.replace(one, started_at=round(one.started_at)) for one in agents]


def _find_switches(then: Served, now: Served) -> list[SessionChange | Switched]:
    """A process that left exactly one session and took exactly one; the same PID is the same process identity."""
    found: list[SessionChange | Switched] = []
    for process, keys in now.items():
        left, taken = then.get(process, frozenset()) - keys, keys - then.get(process, frozenset())
        if len(left) == 1 and len(taken) == 1:
            (previous,), (current,) = left, taken
            found.append(Switched(pid=process.pid, previous=previous, current=current))
    return found


def find_served(sessions: Mapping[SessionKey, Session]) -> dict[ProcessIdentity, frozenset[SessionKey]]:
    """The sessions of each process that has any."""
    served: dict[ProcessIdentity, frozenset[SessionKey]] = {}
    for key, session in sessions.items():
        for process in session.verdict.processes:
            served[process] = served.get(process, frozenset()) | {key}
    return served


def _face(session: Session) -> tuple[object, ...]:
    """All that a person could notice. Reasons say ages and differ in every survey, so rules are compared instead."""
    verdict = session.verdict
    return (
        verdict.state,
        verdict.activity,
        verdict.processes,
        verdict.maybe_pids,
        verdict.conflict,
        [(judged.claim, judged.liveness, judged.rule) for judged in verdict.evidence],
        verdict.bad_evidence,
        session.record,
        session.restore,
        session.pid_started_at,
        session.work_dir,
        session.version,
        session.model,
        session.warnings,
    )
