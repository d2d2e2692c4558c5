"""Writes as a witness: who explains a record, and who does not."""

from __future__ import annotations

import pytest
from msgspec import structs

from corral.model.verdict import Liveness
from corral.sessions.decide.attribution import FLUSH_S, is_explained
from tests.unit.sessions.decide.facts import judged


def test_nobody_explains_what_nobody_is_known_to_have_had():
    assert not is_explained(500.0, [])


def test_a_process_that_left_explains_its_last_records():
    left = judged(Liveness.STALE, written_at=100.0, ended_at=400.0)
    assert is_explained(399.0, [left]) and is_explained(400.0 + FLUSH_S, [left])
    assert not is_explained(400.0 + FLUSH_S + 1, [left])


def test_a_process_whose_death_nobody_saw_explains_all_since_it_began():
    dead = judged(Liveness.STALE, written_at=100.0)
    assert is_explained(10_000.0, [dead])
    assert not is_explained(100.0 - FLUSH_S - 1, [dead])


def test_a_process_that_was_seen_dead_explains_nothing_later():
    dead = structs.replace(judged(Liveness.STALE, written_at=100.0), dead_by=500.0)
    assert is_explained(500.0, [dead]) and not is_explained(500.1, [dead])


@pytest.mark.parametrize("liveness", [Liveness.LIVE, Liveness.REMOTE])
def test_one_that_has_it_explains_it(liveness: Liveness):
    assert is_explained(500.0, [judged(liveness, written_at=100.0)])


def test_a_doubt_explains_nothing():
    assert not is_explained(500.0, [judged(Liveness.UNKNOWN, written_at=100.0)])
