"""Answered sessions to render: one of each state, as a survey would give them."""

from __future__ import annotations

from corral.model.key import SessionKey
from corral.model.process import ProcessMode
from corral.model.record import TurnState
from corral.model.restore import Attach, Refusal, Refused, Resume
from corral.model.session import AgentProcess, Session, Survey
from corral.model.verdict import Liveness, State
from corral.sessions.decide.state import decide_state
from tests.unit.sessions.decide.facts import judged, record

NOW = 1_000_000.0


def session(session_id: str, claims=(), maybe_pids=(), **changes: object) -> Session:
    one = record(session_id=session_id, **{"updated_at": NOW - 7200, **changes})
    verdict = decide_state(one, claims, maybe_pids=maybe_pids)
    live = verdict.state is State.LIVE
    plan = (
        Attach(pid=verdict.processes[-1].pid)
        if live
        else Resume(argv=("kimi", "-r", session_id), cwd="/src/app", env={})
    )
    if maybe_pids:
        plan = Refused(reason=Refusal.MAYBE_OPEN, message="maybe open", remedy=("quit it",))
    return Session(
        key=SessionKey("kimi-cli", "/h/.kimi", "bucket", session_id),
        verdict=verdict,
        record=one,
        restore=plan,
        pid_started_at=NOW - 1200 if live else None,
        work_dir=one.work_dir,
    )


def each_state() -> list[Session]:
    live = [judged(Liveness.LIVE, 4711, written_at=NOW - 1200)]
    return [
        session(
            "aaaaaaaa-1",
            live,
            updated_at=NOW,
            turn=TurnState.WAITING,
            waits_for="run npm test",
            turn_started_at=NOW - 40,
        ),
        session("bbbbbbbb-1", live, updated_at=NOW, turn=TurnState.OPEN, turn_started_at=NOW - 125),
        session("cccccccc-1", live, updated_at=NOW, title="Rate limiter"),
        session("dddddddd-1", turn=TurnState.OPEN, unfinished="run the migration", title="Migrate"),
        session("eeeeeeee-1", maybe_pids=[99]),
        session("ffffffff-1", [judged(Liveness.REMOTE, elsewhere=True)]),
        session("gggggggg-1"),
        session("hhhhhhhh-1", durable=False, turn=TurnState.NONE),
    ]


def survey(sessions: list[Session]) -> Survey:
    counts: dict[State, int] = {}
    for one in sessions:
        counts[one.state] = counts.get(one.state, 0) + 1
    unattributed = (
        AgentProcess(
            provider="kimi-cli", pid=99, started_at=NOW - 60, home=None, mode=ProcessMode.UNKNOWN,
            terminal=None, work_dir=None, advice="corral hooks install kimi-cli",
        ),
    )  # fmt: skip
    return Survey(hostname="devbox", taken_at=NOW, sessions=tuple(sessions), counts=counts, unattributed=unattributed)
