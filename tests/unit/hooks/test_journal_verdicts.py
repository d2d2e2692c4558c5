"""Which sessions a journal leaves open: every order of start and end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corral.model.claim import ClaimKind
from corral.model.journal import Journal, JournalEvent, JournalEventKind
from corral.sessions.decide.claims import claims_of, current_sessions
from corral.sidecar.identity import ProcessIdentity

START, END = JournalEventKind.START, JournalEventKind.END
IDENTITY = ProcessIdentity("boot", 4026531836, 4711, 99)


def journal(*steps: tuple[JournalEventKind, str], many: bool = False) -> Journal:
    events = tuple(
        JournalEvent(event=kind, session_id=session_id, at=1000.0 + number, boottime=float(number), scope="b")
        for number, (kind, session_id) in enumerate(steps)
    )
    return Journal(
        provider="kimi-code",
        path="/s/journal/kimi-code/4711-99.json",
        identity=IDENTITY,
        hostname="host",
        home="/h",
        version="2.1.0",
        many=many,
        events=events,
    )


def current(*steps: tuple[JournalEventKind, str], many: bool = False) -> list[str]:
    return [event.session_id for event in current_sessions(journal(*steps, many=many))]


def test_nothing_reported_is_nothing_served():
    assert current() == []


def test_kimi_cli_ends_the_old_session_before_it_starts_the_new_one():
    assert current((START, "a"), (END, "a"), (START, "b")) == ["b"]


def test_kimi_code_starts_the_new_session_before_it_ends_the_old_one():
    assert current((START, "a"), (START, "b"), (END, "a")) == ["b"]


def test_a_fork_that_the_process_does_not_move_to_leaves_the_source():
    assert current((START, "a"), (START, "fork"), (END, "fork")) == ["a"]


def test_a_session_that_is_started_again_is_served_again():
    assert current((START, "a"), (START, "b"), (END, "a"), (START, "a"), (END, "b")) == ["a"]


def test_a_quit_leaves_nothing():
    assert current((START, "a"), (END, "a")) == []


def test_a_repeated_end_and_an_end_without_a_start_change_nothing():
    assert current((END, "x"), (START, "a"), (END, "a"), (START, "b"), (END, "a"), (END, "a")) == ["b"]


def test_a_server_serves_all_that_it_has_not_ended():
    assert current((START, "a"), (START, "b"), (START, "c"), (END, "b"), many=True) == ["a", "c"]


def test_a_claim_carries_the_exact_process_and_when_it_left():
    served, left = sorted(claims_of(journal((START, "a"), (END, "a"), (START, "b"))), key=lambda c: c.ended_at or 0)
    assert (served.kind, served.session_id, served.ended_at) == (ClaimKind.JOURNAL, "b", None)
    assert (served.boot_id, served.pid_ns, served.pid, served.start_ticks) == IDENTITY
    assert (left.session_id, left.ended_at) == ("a", 1001.0)


def test_a_session_whose_end_was_never_reported_is_replaced_by_the_next():
    first, second = claims_of(journal((START, "a"), (START, "b")))
    assert (first.session_id, first.ended_at, first.end_reason) == ("a", 1001.0, "replaced")
    assert (second.session_id, second.ended_at) == ("b", None)


STEPS = st.lists(st.tuples(st.sampled_from([START, END]), st.sampled_from("abcde")), max_size=40)


@given(STEPS, st.booleans())
def test_current_sessions_are_exactly_the_open_ones_by_a_second_reckoning(steps, many):
    open_now = [
        session_id
        for number, (kind, session_id) in enumerate(steps)
        if kind is START and not any(later == session_id for _, later in steps[number + 1 :])
    ]
    assert current(*steps, many=many) == (open_now if many else open_now[-1:])


@given(STEPS, st.booleans())
def test_every_started_session_has_one_claim_and_only_the_current_ones_are_open(steps, many):
    claims = claims_of(journal(*steps, many=many))
    assert sorted(claim.session_id for claim in claims) == sorted({name for kind, name in steps if kind is START})
    assert [claim.session_id for claim in claims if claim.ended_at is None] == current(*steps, many=many)


@given(st.permutations([(END, "old"), (START, "new")]), STEPS)
def test_both_orders_of_a_switch_end_in_the_new_session(switch, before):
    steps = [step for step in before if step[1] not in ("old", "new")]
    assert current(*steps, (START, "old"), *switch) == ["new"]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_a_burst_of_switches_ends_in_the_last_one(names):
    steps: list[tuple[JournalEventKind, str]] = []
    last = None
    for name in names:
        steps.append((START, name))
        if last is not None and last != name:
            steps.append((END, last))
        last = name
    assert current(*steps) == [names[-1]]


@given(STEPS)
def test_ends_may_be_repeated_without_effect(steps):
    doubled = [again for step in steps for again in ([step, step] if step[0] is END else [step])]
    assert current(*doubled) == current(*steps)
