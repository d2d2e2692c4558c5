"""The state of one session: precedence, and what raises doubt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.claim import ClaimKind
from corral.model.record import TurnState
from corral.model.verdict import Activity, Liveness, State
from corral.sessions.decide.state import decide_state
from tests.unit.sessions.decide.facts import identity, judged, record

LIVE, STALE, REMOTE, UNKNOWN = Liveness.LIVE, Liveness.STALE, Liveness.REMOTE, Liveness.UNKNOWN


def test_a_verified_claim_makes_it_live_with_that_process():
    verdict = decide_state(record(), [judged(LIVE, 10)])
    assert verdict.state is State.LIVE
    assert verdict.processes == (identity(10),)


def test_two_openers_are_both_shown_in_the_order_they_came():
    verdict = decide_state(record(), [judged(LIVE, 20), judged(LIVE, 10)])
    assert verdict.processes == (identity(10), identity(20))
    assert "2 processes" in verdict.reason


def test_two_claims_of_one_process_name_it_once():
    verdict = decide_state(record(), [judged(LIVE, 10), judged(LIVE, 10, kind=ClaimKind.RUNTIME)])
    assert verdict.processes == (identity(10),)


def test_our_own_launch_is_pending_until_the_provider_speaks():
    launch = judged(LIVE, 10, kind=ClaimKind.LAUNCH)
    assert decide_state(record(), [launch]).state is State.PENDING
    assert decide_state(record(), [launch, judged(LIVE, 10)]).state is State.LIVE


def test_of_a_launch_that_nobody_will_confirm_that_is_said_with_what_helps():
    silent = judged(LIVE, 10, kind=ClaimKind.LAUNCH, silence="the CLI says so only through hooks")
    verdict = decide_state(record(), [silent])
    assert verdict.state is State.PENDING
    assert "only through hooks" in verdict.reason and "corral hooks install kimi-cli" in verdict.reason
    assert decide_state(record(), [silent, judged(LIVE, 10)]).reason == "reason of pid 10"


@pytest.mark.parametrize(
    ("claims", "state"),
    [
        ([judged(REMOTE, elsewhere=True), judged(UNKNOWN)], State.ELSEWHERE),
        ([judged(UNKNOWN, elsewhere=True)], State.ELSEWHERE),
        ([judged(UNKNOWN), judged(STALE)], State.UNKNOWN),
        ([judged(STALE)], State.IDLE),
        ([], State.IDLE),
    ],
)
def test_without_a_verified_process_the_strongest_doubt_wins(claims, state):
    assert decide_state(record(), claims).state is state


@pytest.mark.parametrize("turn", [TurnState.OPEN, TurnState.IN_TOOL, TurnState.WAITING])
def test_an_unfinished_turn_that_nobody_serves_is_orphaned(turn):
    assert decide_state(record(turn=turn), [judged(STALE)]).state is State.ORPHANED
    assert decide_state(record(turn=turn)).state is State.ORPHANED


def test_an_unattributed_process_turns_orphaned_empty_and_idle_into_unknown():
    for one in (record(), record(turn=TurnState.OPEN), record(durable=False, turn=TurnState.NONE)):
        verdict = decide_state(one, [judged(STALE)], maybe_pids=[4711])
        assert verdict.state is State.UNKNOWN
        assert verdict.maybe_pids == (4711,)
        assert "4711" in verdict.reason


def test_a_claim_that_could_be_another_sessions_raises_doubt_only():
    verdict = decide_state(record(), unjoined=[judged(LIVE, 10)])
    assert verdict.state is State.UNKNOWN
    assert verdict.processes == ()


def test_what_was_never_prompted_is_empty_with_its_reason():
    verdict = decide_state(record(durable=False, turn=TurnState.NONE, not_durable_reason="never prompted"))
    assert (verdict.state, verdict.reason) == (State.EMPTY, "never prompted")


def test_an_unreadable_end_is_unknown_not_idle():
    assert decide_state(record(turn=TurnState.UNREADABLE)).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("turn", "activity"),
    [
        (TurnState.OPEN, Activity.BUSY),
        (TurnState.WAITING, Activity.WAITING),
        (TurnState.ENDED, Activity.READY),
        (TurnState.NONE, Activity.READY),
        (TurnState.IN_TOOL, None),
        (TurnState.UNREADABLE, None),
    ],
)
def test_activity_is_what_the_transcript_says_and_nothing_more(turn, activity):
    assert decide_state(record(turn=turn), [judged(LIVE)]).activity is activity


def test_a_turn_left_open_before_the_process_came_is_not_its_own():
    lost = record(turn=TurnState.OPEN, updated_at=50.0)
    assert decide_state(lost, [judged(LIVE, 10)]).activity is Activity.READY
    assert decide_state(lost, [judged(LIVE, 10, written_at=40.0), judged(LIVE, 20)]).activity is Activity.BUSY


def test_the_providers_own_word_for_activity_comes_first():
    assert decide_state(record(turn=TurnState.OPEN), [judged(LIVE, activity="waiting")]).activity is Activity.WAITING


_verdicts = st.lists(st.builds(judged, st.sampled_from(Liveness), st.integers(1, 5)), max_size=5)


@given(_verdicts, st.sampled_from(TurnState), st.booleans(), st.lists(st.integers(1, 99), max_size=2))
def test_live_if_and_only_if_a_claim_is_verified(claims, turn, durable, maybe):
    verdict = decide_state(record(turn=turn, durable=durable), claims, maybe_pids=maybe)
    assert (verdict.state is State.LIVE) == any(claim.liveness is LIVE for claim in claims)
    assert bool(verdict.processes) == (verdict.state is State.LIVE)
    if maybe and verdict.state not in (State.LIVE, State.ELSEWHERE):
        assert verdict.state is State.UNKNOWN


def test_where_no_process_can_be_seen_nothing_is_idle():
    for one in (record(), record(turn=TurnState.OPEN), record(durable=False, turn=TurnState.NONE)):
        verdict = decide_state(one, unseen="running processes can't be seen here")
        assert (verdict.state, verdict.may_be_served) == (State.UNKNOWN, True)


def test_only_doubt_about_processes_keeps_a_session_closed():
    assert not decide_state(record(turn=TurnState.UNREADABLE)).may_be_served
    assert decide_state(record(), unjoined=[judged(REMOTE, elsewhere=True)]).may_be_served
    assert decide_state(record(), [judged(UNKNOWN)]).may_be_served
    assert not decide_state(record(), [judged(STALE)]).may_be_served
