"""Which running agents are accounted for, and which could serve anything in their home."""

from __future__ import annotations

from corral.verdicts.attribution import HookCover, attribute
from tests.unit.verdicts.facts import identity, process

HOME = ("kimi-cli", "/h/.kimi")


def test_a_claimed_process_is_attributed():
    found = attribute([process(10)], {identity(10)}, {})
    assert found.unattributed == found.no_session_yet == ()


def test_a_process_that_no_claim_names_could_serve_any_session_of_its_home():
    found = attribute([process(10)], set(), {})
    assert found.maybe_serving(*HOME) == (10,)
    assert found.maybe_serving("kimi-cli", "/other") == ()
    assert found.maybe_serving("kimi-code", "/h/.kimi") == ()


def test_an_unknown_home_counts_for_all_homes():
    found = attribute([process(10, home=None)], set(), {})
    assert found.maybe_serving("kimi-cli", "/any") == (10,)


def test_the_launchers_of_a_claimed_run_are_not_unattributed():
    assert attribute([process(10, group=10), process(11, group=10)], {identity(11)}, {}).unattributed == ()


def test_an_unclaimed_run_is_listed_once():
    assert len(attribute([process(10, group=10), process(11, group=10)], set(), {}).unattributed) == 1


def test_a_run_that_began_after_the_hooks_has_no_session_yet():
    found = attribute([process(10, started_at=50.0)], set(), {HOME: HookCover(since=49.0)})
    assert [one.identity.pid for one in found.no_session_yet] == [10]
    assert found.unattributed == ()


def test_a_run_that_began_before_the_hooks_reports_to_nobody():
    found = attribute([process(10, started_at=50.0)], set(), {HOME: HookCover(since=51.0)})
    assert found.maybe_serving(*HOME) == (10,)


def test_a_reused_pid_is_another_process():
    assert attribute([process(10)], {identity(10, ticks=999)}, {}).maybe_serving(*HOME) == (10,)


def test_a_process_that_should_have_a_session_by_now_reports_to_nobody():
    cover = {HOME: HookCover(since=49.0, silence_s=20.0)}
    assert attribute([process(10, started_at=50.0)], set(), cover, now=69.0).unattributed == ()
    assert attribute([process(10, started_at=50.0)], set(), cover, now=71.0).maybe_serving(*HOME) == (10,)


def test_a_process_whose_report_cannot_be_read_may_have_any_session():
    cover = {HOME: HookCover(since=49.0)}
    found = attribute([process(10)], set(), cover, now=60.0, distrusted={(10, 1000)})
    assert found.maybe_serving(*HOME) == (10,)
