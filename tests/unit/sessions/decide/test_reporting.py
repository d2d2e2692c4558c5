"""A report counts only while the reporting of its process can be shown to have had no gap."""

from __future__ import annotations

from msgspec import structs

from corral.model.claim import ClaimKind
from corral.model.journal import JournalEventKind
from corral.model.verdict import Liveness
from corral.sessions.decide.attribution import GAP, Reporting, doubt_outdated, find_gap, find_lost_beat
from tests.unit.sessions.decide.facts import BOOT, identity, judged

WORKS = Reporting(problem=None, unbroken_since=100.0, read_since=100.0)


def test_a_report_since_the_last_gap_counts():
    assert find_gap(100.0, WORKS) is None
    assert find_gap(500.0, WORKS) is None


def test_a_report_from_before_the_end_of_a_gap_does_not():
    assert "did not work for some time" in (find_gap(99.0, WORKS) or "")


def test_no_report_counts_while_the_hooks_do_not_work():
    broken = Reporting(problem="x is missing", unbroken_since=100.0, read_since=100.0)
    assert "x is missing" in (find_gap(500.0, broken) or "")


def test_no_report_counts_without_hooks():
    assert "not installed" in (find_gap(500.0, None) or "")


BEATS = structs.replace(WORKS, beat_s=60.0)


def test_a_heartbeat_that_has_stopped_is_a_gap():
    assert find_lost_beat(1000.0, BEATS, 1000.0 + 4 * 60) is None  # some may be lost on a busy machine
    assert "heartbeat" in (find_lost_beat(1000.0, BEATS, 1000.0 + 5 * 60) or "")


def test_one_that_never_had_a_heartbeat_is_not_missed():
    assert find_lost_beat(None, BEATS, 9000.0) is None
    assert find_lost_beat(1000.0, WORKS, 9000.0) is None
    assert find_lost_beat(1000.0, None, 9000.0) is None


def test_what_a_process_reported_is_a_doubt_after_a_gap():
    (doubted,) = doubt_outdated([judged(Liveness.LIVE, 10)], {identity(10): "why"})
    assert (doubted.liveness, doubted.rule, doubted.identity) == (Liveness.UNKNOWN, GAP, None)
    assert "why" in doubted.reason


def test_the_provider_s_own_word_is_not_touched_by_it():
    verdict = judged(Liveness.LIVE, 10, kind=ClaimKind.REGISTRY)
    assert doubt_outdated([verdict], {identity(10): "why"}) == [verdict]


def test_other_processes_are_not_touched_by_it():
    verdict = judged(Liveness.LIVE, 11)
    assert doubt_outdated([verdict], {identity(10): "why"}) == [verdict]


def test_which_session_a_dead_process_had_last_is_not_known_either():
    dead = judged(Liveness.STALE, 10, boot_id=BOOT, pid_ns=identity(10).pid_ns, start_ticks=1000)
    (doubted,) = doubt_outdated([dead], {identity(10): "why"})
    assert (doubted.liveness, doubted.claim.missed) == (Liveness.STALE, JournalEventKind.START)
