"""Which of several records of one process still holds: the newest, the one of more authority, or all of them."""

from __future__ import annotations

from typing import Any

import pytest

from corral.model.claim import Claim, ClaimKind
from corral.model.process import ProbeFacts
from corral.sessions.decide.conflicts import decide_superseded
from tests.unit.sessions.decide.liveness_facts import (
    TICKS,
    WRITTEN_AT,
    exact,
    judge,
    look_alike,
    no_process,
    process,
    record,
    words,
)


def newest_wins(*claims: Claim, probe: ProbeFacts | None = None) -> list[str]:
    return [words(each) for each in decide_superseded([judge(claim, probe or process()) for claim in claims])]


def newer(**changed: Any) -> Claim:
    return record(**({"session_id": "s2", "written_at": WRITTEN_AT + 5, "path": "/h/s2"} | changed))


def test_34_without_a_record_there_is_nothing_to_judge() -> None:
    assert decide_superseded([]) == []


def test_35_the_newest_of_two_records_of_one_process_wins() -> None:
    assert newest_wins(record(), newer()) == ["stale(superseded)", "live(began-before)"]
    assert newest_wins(newer(), record()) == ["live(began-before)", "stale(superseded)"]


def test_36_a_server_is_live_for_all_its_sessions() -> None:
    assert newest_wins(record(many=True), newer(many=True)) == ["live(began-before)"] * 2


def test_5_the_reused_number_is_explained_by_the_new_process_own_record() -> None:
    young = look_alike(began=60)
    own = newer(written_at=WRITTEN_AT + 61)
    assert newest_wins(record(), own, probe=young) == ["stale(superseded)", "live(began-before)"]


def test_6_a_record_too_close_to_tell_ends_with_the_next_one_of_that_process() -> None:
    assert newest_wins(record(), newer(), probe=process(began=1)) == [
        "stale(superseded)",
        "live(began-before)",
    ]


def test_two_records_of_the_same_time_cannot_both_be_right() -> None:
    assert newest_wins(record(), newer(written_at=WRITTEN_AT)) == ["unknown(tie)", "unknown(tie)"]


def test_two_records_of_the_same_session_do_not_compete() -> None:
    assert newest_wins(record(), newer(session_id="s1")) == ["live(began-before)"] * 2


def test_two_processes_do_not_compete() -> None:
    verdicts = [judge(record(), process()), judge(newer(pid=99), process(pid=99))]
    assert [words(each) for each in decide_superseded(verdicts)] == ["live(began-before)"] * 2


@pytest.mark.parametrize("kind", [ClaimKind.REGISTRY, ClaimKind.LOCK, ClaimKind.JOURNAL])
def test_registry_lock_and_journal_outrank_a_newer_foreign_record(kind: ClaimKind) -> None:
    assert newest_wins(exact(kind=kind), newer()) == ["live(exact)", "stale(outranked)"]


def test_a_record_that_the_journal_confirms_stays() -> None:
    journal = exact(kind=ClaimKind.JOURNAL)
    assert newest_wins(journal, record()) == ["live(exact)", "live(began-before)"]


def test_a_server_journal_supersedes_nothing() -> None:
    journal = exact(kind=ClaimKind.JOURNAL, many=True)
    assert newest_wins(journal, newer()) == ["live(exact)", "live(began-before)"]


def test_exact_claims_are_never_superseded_by_time() -> None:
    assert newest_wins(exact(), exact(session_id="s2", written_at=WRITTEN_AT + 5)) == ["live(exact)"] * 2
    assert newest_wins(exact(), newer()) == ["live(exact)", "live(began-before)"]


def test_a_record_that_its_process_reported_to_have_left_no_longer_holds() -> None:
    left = exact(kind=ClaimKind.JOURNAL, ended_at=WRITTEN_AT + 9)
    assert newest_wins(left, record()) == ["stale(ended)", "stale(superseded)"]


def test_a_record_written_after_the_report_of_leaving_holds() -> None:
    left = exact(kind=ClaimKind.JOURNAL, ended_at=WRITTEN_AT - 9)
    assert newest_wins(left, record()) == ["stale(ended)", "live(began-before)"]


def test_another_process_leaving_the_session_changes_nothing() -> None:
    left = exact(kind=ClaimKind.JOURNAL, ended_at=WRITTEN_AT + 9, start_ticks=TICKS + 1)
    assert newest_wins(left, record()) == ["stale(ended)", "live(began-before)"]


def test_dead_and_distant_records_are_left_as_they_are() -> None:
    verdicts = [judge(record(), no_process()), judge(record(hostname="far"), None), judge(newer(), process())]
    assert [words(each) for each in decide_superseded(verdicts)] == [
        "stale(gone)",
        "remote-host elsewhere",
        "live(began-before)",
    ]
