"""The way back into a session: every refusal of the closed list, and what overrides it."""

from __future__ import annotations

import pytest

from corral.model.record import TurnState
from corral.model.restore import Attach, Program, Refusal, Refused, Resume, ResumeFacts, Wait
from corral.model.verdict import Liveness, SessionVerdict, State
from corral.sessions.decide.restore import plan_restore, refuse_live
from corral.sessions.decide.state import decide_state
from tests.unit.sessions.decide.facts import identity, judged, record

PROGRAM = Program(provider="kimi-cli", path="/bin/kimi", version="1.51.0")
RESUME = Resume(argv=("/bin/kimi", "--session", "s1"), cwd="/src/app", env={})


def facts(**changes: object) -> ResumeFacts:
    fields: dict[str, object] = {
        "home_exists": True,
        "work_dir_exists": True,
        "transcript_exists": True,
        "program": PROGRAM,
    }
    return ResumeFacts(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


def plan(one=None, verdict=None, session_id="s1", resume=RESUME, anyway=False, **changes):
    one = one if one is not None else record()
    verdict = verdict if verdict is not None else decide_state(one)
    return plan_restore(session_id, one, verdict, facts(**changes), resume, title="Kimi CLI", anyway=anyway)


def test_an_idle_session_is_resumed_as_its_provider_says():
    assert plan() == RESUME


def test_an_orphaned_session_is_resumed_too():
    assert plan(record(turn=TurnState.OPEN)) == RESUME


def test_a_live_session_is_attached_never_resumed_not_even_anyway():
    live = decide_state(record(), [judged(Liveness.LIVE, 10)])
    for anyway in (False, True):
        found = plan(verdict=live, anyway=anyway)
        assert found == Attach(pid=10)
    assert refuse_live(Attach(pid=10, terminal="/dev/pts/3")).reason is Refusal.ALREADY_LIVE


def test_a_start_under_way_is_waited_for():
    pending = SessionVerdict(state=State.PENDING, reason="", processes=(identity(10),))
    assert plan(verdict=pending) == Wait(pid=10)


@pytest.mark.parametrize(
    ("reason", "given"),
    [
        (Refusal.IDENTITY_INVALID, {"session_id": "../x"}),
        (Refusal.IDENTITY_INVALID, {"session_id": "-rf"}),
        (
            Refusal.CLAIMED_ELSEWHERE,
            {"verdict": decide_state(record(), [judged(Liveness.REMOTE, elsewhere=True)])},
        ),
        (Refusal.MAYBE_OPEN, {"verdict": decide_state(record(), maybe_pids=[4711])}),
        (Refusal.MAYBE_OPEN, {"verdict": decide_state(record(), [judged(Liveness.UNKNOWN)])}),
        (Refusal.MAYBE_OPEN, {"verdict": decide_state(record(), unjoined=[judged(Liveness.LIVE)])}),
        (Refusal.MAYBE_OPEN, {"verdict": decide_state(record(), unjoined=[judged(Liveness.REMOTE, elsewhere=True)])}),
        (Refusal.MAYBE_OPEN, {"verdict": decide_state(record(), unseen="no /proc")}),
        (Refusal.HOME_MISSING, {"home_exists": False}),
        (Refusal.TRANSCRIPT_MISSING, {"transcript_exists": False}),
        (Refusal.NOT_DURABLE, {"one": record(durable=False, turn=TurnState.NONE)}),
        (Refusal.WORK_DIR_MISSING, {"work_dir_exists": False}),
        (Refusal.WORK_DIR_MISSING, {"one": record(work_dir=None)}),
        (Refusal.WORK_DIR_UNREGISTERED, {"guard": Refused(reason=Refusal.WORK_DIR_UNREGISTERED, message="")}),
        (Refusal.PROVIDER_MISSING, {"program": None}),
        (
            Refusal.PROVIDER_UNSUPPORTED,
            {"program": Program(provider="kimi-cli", path="/bin/kimi", version="1.52.0", problem="a tombstone")},
        ),
        (Refusal.RESTORE_UNSUPPORTED, {"resume": None}),
    ],
)
def test_a_refusal_has_its_reason(reason, given):
    found = plan(**given)
    assert isinstance(found, Refused)
    assert found.reason is reason


def test_anyway_overrides_doubt_and_nothing_else():
    doubt = decide_state(record(), maybe_pids=[4711])
    assert plan(verdict=doubt, anyway=True) == RESUME
    away = decide_state(record(), [judged(Liveness.REMOTE, elsewhere=True)])
    assert plan(verdict=away, anyway=True) == RESUME
    refused = plan(verdict=doubt, anyway=True, work_dir_exists=False)
    assert isinstance(refused, Refused) and refused.reason is Refusal.WORK_DIR_MISSING


def test_a_claim_from_elsewhere_says_what_is_risked_by_overriding_it():
    refused = plan(verdict=decide_state(record(), [judged(Liveness.REMOTE, elsewhere=True)]))
    assert isinstance(refused, Refused)
    assert "--anyway" in refused.remedy[1] and "overwrite" in refused.remedy[1]


def test_doubt_names_the_pids():
    refused = plan(verdict=decide_state(record(), maybe_pids=[4711, 4712]))
    assert isinstance(refused, Refused)
    assert "4711" in refused.message and "4712" in refused.message


def test_an_unreadable_transcript_end_does_not_forbid_a_resume():
    assert plan(record(turn=TurnState.UNREADABLE)) == RESUME
