"""A record that came with a copy of a home names the process of the original."""

from __future__ import annotations

from corral.model.claim import ClaimKind
from corral.model.verdict import ClaimVerdict, Liveness
from corral.sessions.decide.conflicts import refute_copies
from tests.unit.sessions.decide.facts import judged, process


def decide(is_copy: bool | None, home: str | None, kind: ClaimKind = ClaimKind.RUNTIME) -> ClaimVerdict:
    """The verdict on a live record in /h/.kimi, whose process uses `home`; no such agent runs if that is empty."""
    running = {} if home == "" else {(10, 1000): process(10, home=home)}
    return refute_copies([judged(Liveness.LIVE, 10, kind=kind, is_copy=is_copy)], running)[0]


def test_a_record_in_the_directory_it_was_written_into_counts():
    assert decide(False, "").liveness is Liveness.LIVE


def test_a_record_of_a_process_that_uses_this_home_counts():
    assert decide(None, "/h/.kimi").liveness is Liveness.LIVE


def test_a_record_of_a_process_of_another_home_is_a_copy():
    for is_copy in (None, True):
        verdict = decide(is_copy, "/original/.kimi")
        assert (verdict.liveness, verdict.rule) == (Liveness.STALE, "copied")
    assert decide(None, "/original/.kimi", ClaimKind.REGISTRY).liveness is Liveness.STALE


def test_where_nothing_says_which_home_the_process_uses_it_is_unknown():
    assert decide(None, None).liveness is Liveness.UNKNOWN
    assert decide(None, "").liveness is Liveness.UNKNOWN
    assert decide(True, "").liveness is Liveness.UNKNOWN


def test_a_directory_that_was_replaced_under_its_process_is_unknown():
    assert decide(True, "/h/.kimi").liveness is Liveness.UNKNOWN


def test_a_journal_is_not_kept_in_the_home_and_can_t_come_with_it():
    assert decide(None, "/original/.kimi", ClaimKind.JOURNAL).liveness is Liveness.LIVE


def test_a_session_that_was_copied_within_its_home_is_not_the_one_that_its_process_has():
    copy = judged(Liveness.LIVE, 10, kind=ClaimKind.RUNTIME, is_copy=True, scope="other")
    running = {(10, 1000): process(10)}
    for own_word in (
        judged(Liveness.LIVE, 10, kind=ClaimKind.JOURNAL),
        judged(Liveness.LIVE, 10, kind=ClaimKind.RUNTIME, is_copy=False),
    ):
        kept, refuted = refute_copies([own_word, copy], running)
        assert kept == own_word and (refuted.liveness, refuted.rule) == (Liveness.STALE, "copied")
    # Its directory was replaced: it is still the session that the process has.
    replaced = judged(Liveness.LIVE, 10, kind=ClaimKind.RUNTIME, is_copy=True)
    _, doubted = refute_copies([judged(Liveness.LIVE, 10, kind=ClaimKind.JOURNAL), replaced], running)
    assert doubted.liveness is Liveness.UNKNOWN
