"""Opening a tab: by the word of its own process, one way or a refusal, and never over another's head."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from corral.model.claim import ClaimKind
from corral.model.journal import JournalEventKind
from corral.model.key import SessionKey
from corral.model.restore import Attach, Refusal, Refused, Resume, Wait
from corral.model.session import Session
from corral.model.tab import Opened
from corral.model.terminal import Standing
from corral.model.verdict import ClaimVerdict, Liveness, SessionVerdict, State
from corral.tabs.plan import ResumeTab, TabFacts, decide_last_session, plan_tab
from tests.unit.sessions.decide.facts import claim, identity, record

KEY = SessionKey("kimi-cli", "/h/.kimi", "bucket", "s1")
RESUME = Resume(argv=("/bin/kimi", "--session", "s1"), cwd="/src/app", env={})
PLANS = (
    None,
    RESUME,
    Attach(pid=7),
    Wait(pid=7),
    *(Refused(reason=reason, message="a sentence") for reason in Refusal),
)


def facts(**changes: object) -> TabFacts:
    fields: dict[str, object] = {"tab": "t1", "standing": Standing.LOST, "last": KEY, "plan": RESUME}
    return TabFacts(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


every_tab = st.builds(
    TabFacts,
    tab=st.just("t1"),
    standing=st.sampled_from(Standing),
    last=st.sampled_from([None, KEY]),
    plan=st.sampled_from(PLANS),
    served_in=st.sampled_from([None, "t2"]),
    restores=st.booleans(),
)


@given(every_tab)
def test_a_program_is_started_only_where_nothing_else_can_have_the_session(found: TabFacts):
    plan = plan_tab(found)
    if isinstance(plan, ResumeTab):
        assert found.standing in (Standing.LOST, Standing.ENDED)
        assert found.plan == RESUME and found.served_in is None and found.restores
        assert plan.key == found.last is not None


@given(every_tab)
def test_a_terminal_that_runs_is_always_attached_to(found: TabFacts):
    assert (plan_tab(found) == Opened(tab="t1", plan="attach")) == (found.standing is Standing.RUNNING)


@given(every_tab)
def test_a_refusal_keeps_its_words_and_has_a_reason_of_the_closed_list(found: TabFacts):
    plan = plan_tab(found)
    if isinstance(plan, Refused):
        assert plan.reason in Refusal and plan.message
        if isinstance(found.plan, Refused) and found.standing is Standing.LOST and found.last and found.restores:
            assert plan == found.plan


def test_each_case_in_words():
    assert plan_tab(facts()) == ResumeTab(KEY)
    assert plan_tab(facts(standing=Standing.ENDED)) == ResumeTab(KEY)
    assert plan_tab(facts(plan=Wait(pid=9))) == Opened(tab="t1", plan="wait")
    assert plan_tab(facts(served_in="t2", plan=Attach(pid=9))) == Opened(tab="t2", plan="attach")
    assert refusal(last=None) is Refusal.NEVER_IDENTIFIED
    assert refusal(plan=None) is Refusal.TRANSCRIPT_MISSING
    assert refusal(plan=Attach(pid=9)) is Refusal.ALREADY_LIVE
    assert refusal(restores=False) is Refusal.RESTORE_UNSUPPORTED
    assert refusal(standing=Standing.ELSEWHERE) is Refusal.CLAIMED_ELSEWHERE


def refusal(**changes: object) -> Refusal:
    plan = plan_tab(facts(**changes))
    assert isinstance(plan, Refused)
    return plan.reason


def session(session_id: str, *claims) -> Session:
    evidence = tuple(
        ClaimVerdict(claim=one, liveness=Liveness.STALE, rule="gone", reason="the process is gone") for one in claims
    )
    found = record(session_id=session_id)
    verdict = SessionVerdict(state=State.IDLE, reason="", evidence=evidence)
    return Session(key=found.key, verdict=verdict, restore=RESUME, record=found)


def said(pid: int, session_id: str, at: float, ticks: int = 1000, **more):
    found = identity(pid, ticks)
    return claim(pid, session_id, written_at=at, boot_id=found.boot_id, pid_ns=found.pid_ns, start_ticks=ticks, **more)


def last(process, *sessions: Session) -> str | None:
    found = decide_last_session([process], sessions)
    return None if isinstance(found, str) else found.session_id


def test_the_session_that_the_process_took_last_and_did_not_leave():
    old = session("old", said(10, "old", 1.0, ended_at=2.0))
    new = session("new", said(10, "new", 2.0))
    assert last(identity(10), old, new) == last(identity(10), new, old) == "new"


def test_all_left_means_the_one_left_last():
    old = session("old", said(10, "old", 1.0, ended_at=2.0))
    new = session("new", said(10, "new", 2.0, ended_at=3.0))
    assert last(identity(10), old, new) == "new"


def test_where_a_start_was_lost_the_last_session_is_not_known_unless_a_registry_says_it():
    old = session("old", said(10, "old", 1.0, missed=JournalEventKind.START))
    assert last(identity(10), old) is None
    left = session("left", said(10, "left", 1.0, ended_at=2.0, missed=JournalEventKind.START))
    assert last(identity(10), left) is None
    quit_unheard = session("quit", said(10, "quit", 1.0, missed=JournalEventKind.END))
    assert last(identity(10), quit_unheard) == "quit"
    new = session("new", said(10, "new", 2.0, kind=ClaimKind.REGISTRY))
    assert last(identity(10), old, new) == "new"


def test_another_process_of_the_same_number_says_nothing():
    assert last(identity(10, 1000), session("other", said(10, "other", 5.0, ticks=2000))) is None
    assert last(identity(10), session("torn", claim(10, "torn", boot_id=None))) is None


def test_a_record_without_a_start_counts_for_the_process_it_was_verified_against_while_that_ran():
    runtime = claim(10, "s1", written_at=5.0, boot_id=None, kind=ClaimKind.RUNTIME)
    found = session("s1", runtime)
    seen = structs.replace(found.verdict.evidence[0], pin=identity(10))
    pinned = structs.replace(found, verdict=structs.replace(found.verdict, evidence=(seen,)))
    assert last(identity(10), pinned) == "s1"
    assert last(identity(10, 2000), pinned) is None
    assert last(identity(10), found) is None


def test_our_own_launch_is_what_was_wanted_and_no_evidence():
    assert last(identity(10), session("s1", said(10, "s1", 1.0, kind=ClaimKind.LAUNCH))) is None


def test_a_registry_outranks_a_later_runtime_json():
    registry = session("by-registry", said(10, "by-registry", 1.0, kind=ClaimKind.REGISTRY))
    runtime = session("by-runtime", said(10, "by-runtime", 9.0, kind=ClaimKind.RUNTIME))
    assert last(identity(10), registry, runtime) == "by-registry"


def test_the_first_process_that_anything_was_said_of_decides():
    one, two = session("one", said(1, "one", 9.0)), session("two", said(2, "two", 1.0))
    found = decide_last_session([identity(3), identity(2), identity(1)], [one, two])
    assert found is two


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans()), max_size=12), st.integers(1, 3))
def test_nothing_is_ever_taken_from_another_process(claims: list[tuple[int, int, bool]], pid: int):
    sessions = [
        session(
            f"s{number}",
            *(
                said(owner, f"s{number}", float(at), ended_at=at + 0.5 if left else None)
                for at, (owner, which, left) in enumerate(claims)
                if which == number
            ),
        )
        for number in range(1, 5)
    ]
    found = decide_last_session([identity(pid)], sessions)
    named = {f"s{which}" for owner, which, _ in claims if owner == pid}
    still_open = {f"s{which}" for owner, which, left in claims if owner == pid and not left}
    assert isinstance(found, str) == (not named or len(still_open) > 1)
    assert isinstance(found, str) or found.session_id in (still_open or named)
