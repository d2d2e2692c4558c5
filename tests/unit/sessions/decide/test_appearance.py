"""One word, sign and place for every state, decided here and sent to every view."""

from __future__ import annotations

from corral.model.claim import ClaimKind
from corral.model.record import TurnState
from corral.model.verdict import Activity, Liveness, State
from corral.sessions.decide.state import STATE_WORDS, decide_appearance
from tests.unit.cli.sessions import NOW, each_state, session
from tests.unit.sessions.decide.facts import judged


def test_every_state_and_activity_has_one_word_and_one_sign():
    named = {(one.state, one.activity) for one in STATE_WORDS}
    assert named == {(state, None) for state in State} | {(State.LIVE, activity) for activity in Activity}
    assert len({one.word for one in STATE_WORDS}) == len(STATE_WORDS) == len(named)


def test_a_session_appears_as_its_state():
    shown = [decide_appearance(one) for one in each_state()]
    assert [(one.sign, one.word, one.since, one.lost_at) for one in shown] == [
        ("◆", "waiting", NOW - 40, None),
        ("◐", "busy", NOW - 125, None),
        ("●", "ready", NOW, None),
        ("✖", "lost", None, NOW - 7200),
        ("?", "maybe open", None, None),
        ("⇄", "elsewhere", None, None),
        ("○", "idle", NOW - 7200, None),
        ("·", "empty", None, None),
    ]


def test_one_that_will_never_be_confirmed_does_not_seem_to_be_starting():
    launch = {"kind": ClaimKind.LAUNCH, "written_at": NOW}
    asked = session("a", [judged(Liveness.LIVE, 4711, **launch)])
    silent = session("b", [judged(Liveness.LIVE, 4711, **launch, silence="hooks are not installed")])
    assert [decide_appearance(one).word for one in (asked, silent)] == ["starting", "unconfirmed"]


def test_who_waits_needs_you_most_then_who_was_lost_and_nobody_else():
    ordered = sorted(each_state(), key=lambda one: decide_appearance(one).order)
    shown = [decide_appearance(one) for one in ordered]
    assert [one.word for one in shown] == [
        "waiting", "lost", "busy", "ready", "maybe open", "elsewhere", "idle", "empty",
    ]  # fmt: skip
    assert [one.needs_you for one in shown] == [True, True] + [False] * 6


def test_a_loss_that_was_dismissed_is_still_lost_and_needs_nobody():
    lost = session("a", turn=TurnState.OPEN)
    shown = decide_appearance(lost, dismissed=True)
    assert (shown.word, shown.needs_you) == ("lost", False)
    assert shown.order == decide_appearance(session("b")).order


def test_a_live_session_keeps_its_place_whatever_it_writes():
    live = [judged(Liveness.LIVE, 4711, written_at=NOW - 1200)]
    before, after = (session("a", live, updated_at=at) for at in (NOW - 60, NOW))
    assert decide_appearance(before).order == decide_appearance(after).order
