"""Which running agents are accounted for, and which could serve anything in their home."""

from __future__ import annotations

from msgspec import structs

from corral.model.process import ProcessMode
from corral.sessions.decide.attribution import Attribution, HookCover, attribute
from tests.unit.sessions.decide.facts import identity, process

HOME = ("kimi-cli", "/h/.kimi")


def unattributed(found: Attribution, home: str) -> list[int]:
    """The processes that could have something open in this home."""
    return [one.identity.pid for one in found.unattributed if one.reach_in(home) is not None]


def test_a_claimed_process_is_attributed():
    found = attribute([process(10)], {identity(10)}, {})
    assert found.unattributed == found.no_session_yet == ()


def test_a_process_that_no_claim_names_could_serve_any_session_of_its_home():
    found = attribute([process(10)], set(), {})
    assert unattributed(found, HOME[1]) == [10]
    assert unattributed(found, "/other") == []


def test_an_unknown_home_counts_for_all_homes():
    found = attribute([process(10, home=None)], set(), {})
    assert unattributed(found, "/any") == [10]


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
    assert unattributed(found, HOME[1]) == [10]


def test_a_reused_pid_is_another_process():
    found = attribute([process(10)], {identity(10, ticks=999)}, {})
    assert unattributed(found, HOME[1]) == [10]


def test_a_process_that_should_have_a_session_by_now_reports_to_nobody():
    cover = {HOME: HookCover(since=49.0, silence_s=20.0)}
    assert attribute([process(10, started_at=50.0)], set(), cover, now=69.0).unattributed == ()
    assert unattributed(attribute([process(10, started_at=50.0)], set(), cover, now=71.0), HOME[1]) == [10]


def test_a_process_whose_report_cannot_be_read_may_have_any_session():
    cover = {HOME: HookCover(since=49.0)}
    found = attribute([process(10)], set(), cover, now=60.0, distrusted={(10, 1000)})
    assert unattributed(found, HOME[1]) == [10]


def test_a_server_that_reports_what_it_opens_may_be_silent_for_ever():
    server = structs.replace(process(10, started_at=50.0), mode=ProcessMode.SERVER)
    cover = HookCover(since=49.0, silence_s=20.0, servers_report=True)
    found = attribute([server], set(), {HOME: cover}, now=5000.0)
    assert (found.unattributed, [one.identity.pid for one in found.no_session_yet]) == ((), [10])
    cover = structs.replace(cover, servers_report=False)
    assert unattributed(attribute([server], set(), {HOME: cover}, now=5000.0), HOME[1]) == [10]


def test_a_process_that_has_just_started_may_be_about_to_open_a_session():
    cover = {HOME: HookCover(since=49.0)}
    assert [one.identity.pid for one in attribute([process(10)], set(), cover, now=60.0).young] == [10]
    assert attribute([process(10)], set(), cover, now=600.0).young == ()


def test_a_process_whose_own_files_say_that_it_has_no_session_raises_no_doubt_without_hooks():
    starting = structs.replace(process(10, home=None), without_session=True)
    found = attribute([starting], set(), {}, now=60.0)
    assert (found.unattributed, len(found.no_session_yet), len(found.young)) == ((), 1, 1)
    assert attribute([starting], set(), {}, now=600.0).young == ()


def test_a_mode_that_never_reports_is_not_young_under_working_hooks():
    server = structs.replace(process(10, started_at=50.0), never_reports=True)
    cover = HookCover(since=49.0, silence_s=20.0)
    found = attribute([server], set(), {HOME: cover}, now=50.1)
    assert (unattributed(found, HOME[1]), found.no_session_yet, found.young) == ([10], (), ())
    # What its own files say still counts.
    starting = structs.replace(server, without_session=True)
    assert attribute([starting], set(), {HOME: cover}, now=50.1).unattributed == ()


def test_one_that_left_its_session_is_about_to_open_another_or_to_end():
    cover = {HOME: HookCover(since=49.0, silence_s=30.0)}
    found = attribute([process(10)], set(), cover, now=1010.0, left={identity(10): 1000.0})
    assert (found.unattributed, found.no_session_yet) == ((), ())
    assert [one.identity.pid for one in found.young] == [10]


def test_one_that_left_its_session_and_has_reported_no_other_since_does_not_report_any_more():
    """Where the CLI always has a session, that is a gap, whatever is on disk."""
    left = {identity(10): 1000.0}
    cover = HookCover(since=49.0, silence_s=30.0)
    found = attribute([process(10)], set(), {HOME: cover}, now=1031.0, left=left)
    assert (unattributed(found, HOME[1]), found.young) == ([10], ())
    # It may have begun under other hooks: what counts is that it reported since.
    assert attribute([process(10)], set(), {HOME: structs.replace(cover, since=900.0)}, 1010.0, left=left).young
    for may_rest in (
        structs.replace(cover, silence_s=None),
        structs.replace(cover, servers_report=True),
    ):
        server = structs.replace(process(10), mode=ProcessMode.SERVER)
        found = attribute([server], set(), {HOME: may_rest}, now=5000.0, left=left)
        assert (found.unattributed, found.young) == ((), ())


def test_one_that_left_its_session_and_became_a_web_server_has_none():
    web = structs.replace(process(10), without_session=True)
    cover = {HOME: HookCover(since=49.0, silence_s=30.0)}
    assert attribute([web], set(), cover, now=5000.0, left={identity(10): 1000.0}).unattributed == ()


def test_a_stopped_process_has_not_had_the_time_to_open_a_session():
    stopped = structs.replace(process(10), is_stopped=True)
    found = attribute([stopped], set(), {HOME: HookCover(since=49.0)}, now=5000.0)
    assert (found.unattributed, [one.identity.pid for one in found.young]) == ((), [10])
