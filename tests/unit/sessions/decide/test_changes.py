"""Two looks at the sessions compared: nothing that did not happen, nothing that did left out."""

from __future__ import annotations

from msgspec import structs

from corral.model.change import Change, SessionChange, Switched
from corral.model.restore import Attach
from corral.model.session import Session
from corral.model.verdict import Activity, ClaimVerdict, Liveness, SessionVerdict, State
from corral.sessions.decide.changes import find_changes, find_served
from tests.unit.sessions.decide.facts import claim, identity, record


def session(session_id: str, state: State = State.IDLE, pids: tuple[int, ...] = (), **more) -> Session:
    found = record(session_id=session_id)
    verdict = SessionVerdict(state=state, reason="", processes=tuple(map(identity, pids)), **more)
    return Session(key=found.key, verdict=verdict, restore=Attach(pid=1), record=found)


def compare(before: list[Session], after: list[Session]) -> list[object]:
    changes = find_changes({one.key: one for one in before}, {one.key: one for one in after})
    return [
        (one.change, one.session.session_id)
        if isinstance(one, SessionChange)
        else (one.pid, one.previous.session_id, one.current.session_id)
        for one in changes
    ]


def test_nothing_happened():
    assert compare([session("a"), session("b")], [session("b"), session("a")]) == []


def test_what_appears_changes_ends_and_goes():
    live = session("b", State.LIVE, (7,), activity=Activity.READY)
    busy = session("b", State.LIVE, (7,), activity=Activity.BUSY)
    assert compare([], [session("a")]) == [(Change.APPEARED, "a")]
    assert compare([live], [busy]) == [(Change.CHANGED, "b")]
    assert compare([busy], [session("b", State.ORPHANED)]) == [(Change.ENDED, "b")]
    assert compare([session("a")], []) == [(Change.GONE, "a")]


def test_the_age_in_a_reason_is_no_change():
    def at(age: str) -> Session:
        seen = ClaimVerdict(claim=claim(7), liveness=Liveness.LIVE, rule="exact", reason=age, identity=identity(7))
        return session("a", State.LIVE, (7,), evidence=(seen,))

    assert compare([at("begun 1 s ago")], [at("begun 2 s ago")]) == []


def test_a_process_that_went_over_to_another_session_is_told_first():
    before = [session("a", State.LIVE, (7,)), session("b")]
    after = [session("a"), session("b", State.LIVE, (7,))]
    assert compare(before, after) == [(7, "a", "b"), (Change.ENDED, "a"), (Change.CHANGED, "b")]


def test_a_number_that_passed_to_another_process_is_no_switch():
    before = [session("a", State.LIVE, (7,)), session("b")]
    reused = structs.replace(session("b", State.LIVE).verdict, processes=(identity(7, 2000),))
    after = [session("a"), structs.replace(session("b"), verdict=reused)]
    assert not [
        one for one in find_changes({x.key: x for x in before}, {x.key: x for x in after}) if isinstance(one, Switched)
    ]


def test_a_server_of_several_sessions_does_not_switch_when_it_takes_one_more():
    before = [session("a", State.LIVE, (7,)), session("b")]
    after = [session("a", State.LIVE, (7,)), session("b", State.LIVE, (7,))]
    assert compare(before, after) == [(Change.CHANGED, "b")]


def test_a_look_between_the_end_of_one_session_and_the_start_of_the_next_hides_no_switch():
    last = find_served({one.key: one for one in [session("a", State.LIVE, (7,))]})
    between, after = session("a"), session("b", State.LIVE, (7,))
    found = find_changes({between.key: between}, {between.key: between, after.key: after}, last)
    assert [(one.pid, one.previous.session_id) for one in found if isinstance(one, Switched)] == [(7, "a")]
    back = session("a", State.LIVE, (7,))
    assert not [one for one in find_changes({}, {back.key: back}, last) if isinstance(one, Switched)]
