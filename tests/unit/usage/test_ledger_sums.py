"""Sums and prices in the ledger: after any history they are what the events alone would give."""

from __future__ import annotations

import random

import pytest

from corral.model.usage import TokenUsage
from corral.usage.ledger import Ledger
from corral.usage.rows import digest
from tests.unit.usage.readings import MadeUpPricer, check_all, kept_sums, kept_turns, reading, true_sums, true_turns

DAY = 86_400


def check(ledger: Ledger, pricer: MadeUpPricer) -> None:
    assert kept_sums(ledger) == true_sums(ledger)
    assert kept_turns(ledger) == true_turns(ledger)
    for model, source, at, *tokens, dollars, picos, assumed in ledger.db.execute(
        "SELECT model, model_source, at, input, cache_read, cache_write, cache_write_1h, output, reasoning, dollars,"
        " picos, assumed FROM events"
    ):
        assert pricer.price(model, source, at, TokenUsage(*tokens)) == (dollars, picos, assumed)
    check_all(ledger)


def random_reading(chance: random.Random):
    """Sessions share keys, as forks do; a key means the same request everywhere, seen at slightly other times."""
    session_id = chance.choice(("a1", "b1", "c1", "d1", "e1"))
    parent = {"c1": "a1", "d1": "c1"}.get(session_id)
    source = chance.choice(("recorded", "journal", "config"))
    events = []
    for number in chance.sample(range(60), chance.randint(1, 12)):
        tokens = (number * 37) % 400
        model = chance.choice(("m", "model", None, "free")) if source != "config" else "m"
        at = 3 * DAY + number * 7_000 + chance.choice((0, 0, 0, -0.001, 950, -950, -DAY))
        events.append((f"k{number}", at, tokens, model))
    return reading(session_id, events, parent=parent, model_source=source)


@pytest.mark.parametrize("seed", range(12))
def test_they_equal_what_the_events_add_up_to_after_any_history(tmp_path, seed):
    chance = random.Random(seed)
    ledger, pricer = Ledger(str(tmp_path)), MadeUpPricer()
    for turn in range(25):
        ledger.store([random_reading(chance) for _ in range(chance.randint(1, 4))], pricer)
        if turn % 8 == 7:
            pricer = MadeUpPricer(f"stamp {turn}", factor=turn)
        if turn % 8 in (6, 7):
            ledger.store([], pricer)
        check(ledger, MadeUpPricer("any", pricer._factor))


@pytest.mark.parametrize("seed", range(4))
def test_a_ledger_built_aside_is_the_same_as_one_kept_up(tmp_path, seed):
    chance = random.Random(seed)
    readings = [[random_reading(chance) for _ in range(3)] for _ in range(10)]
    kept, aside = Ledger(str(tmp_path / "kept")), Ledger(str(tmp_path / "aside"), aside=True)
    for ledger in (kept, aside):
        for some in readings:
            ledger.store(some, MadeUpPricer())
    aside.publish()
    assert kept_sums(kept) == kept_sums(aside) == true_sums(aside)
    assert kept_turns(kept) == kept_turns(aside)
    for table in ("events", "actions", "sessions", "sources"):
        query = f"SELECT * FROM {table} ORDER BY 1, 2, 3"
        assert kept.db.execute(query).fetchall() == aside.db.execute(query).fetchall()
    names = "SELECT name FROM sqlite_master ORDER BY 1"
    assert kept.db.execute(names).fetchall() == aside.db.execute(names).fetchall()


def test_a_copy_that_is_read_first_gives_its_sums_back_to_the_original(tmp_path):
    ledger, pricer = Ledger(str(tmp_path)), MadeUpPricer()
    ledger.store([reading("fork", [("k", 5_000.0, 10, "m")], parent="origin")], pricer)
    ledger.store([reading("origin", [("k", 1_000.0, 10, "m")])], pricer)
    rows = ledger.db.execute(
        "SELECT quarter, session_id, events, turns FROM quarters JOIN sessions ON sessions.id = session"
    ).fetchall()
    assert rows == [(1, "origin", 1, 1)]


@pytest.mark.parametrize("first", ["origin", "fork"])
def test_a_copied_event_keeps_its_earliest_time_in_any_order(tmp_path, first):
    ledger = Ledger(str(tmp_path))
    readings = {
        "origin": reading("origin", [("k", 9_000.0, 10, "m")]),
        "fork": reading("fork", [("k", 1_000.0, 10, "m")], parent="origin"),
    }
    for name in (first, *(other for other in readings if other != first)):
        ledger.store([readings[name]], MadeUpPricer())
    assert ledger.db.execute("SELECT at, session_id FROM events JOIN sessions ON sessions.id = session").fetchall() == [
        (1_000.0, "origin")
    ]


def test_other_prices_price_everything_anew_in_one_piece(tmp_path):
    ledger = Ledger(str(tmp_path))
    ledger.store([reading("s", [("a", 1.0, 10, "m"), ("b", 2.0, 300, "m")])], MadeUpPricer("old"))
    ledger.store([reading("s", [("c", 3.0, 10, "m")])], MadeUpPricer("new", factor=7))
    assert ledger.is_priced_by("new")
    check(ledger, MadeUpPricer("new", factor=7))
    query = "SELECT model, listed_as, source, dated, assumed FROM prices"
    assert ledger.db.execute(query).fetchall() == [("m", "M", "made up new", "2026-01-01", 0)]


def test_beside_money_stands_whose_prices_it_was_made_with(tmp_path):
    ledger = Ledger(str(tmp_path))
    ledger.store([reading("s", [("a", 1.0, 10, "m"), ("b", 2.0, 300, "free"), ("c", 3.0, 1, None)])], MadeUpPricer())
    ledger.store([reading("t", [("d", 4.0, 10, "other")])], MadeUpPricer())
    assert ledger.db.execute("SELECT model, source FROM prices").fetchall() == [
        ("m", "made up one"),
        ("other", "made up one"),
    ]


def test_a_count_that_no_request_can_have_is_skipped_and_said(tmp_path):
    ledger = Ledger(str(tmp_path))
    ledger.store([reading("s", [("a", 1.0, 1 << 53, "m"), ("b", 2.0, 10, "m")])], MadeUpPricer())
    assert ledger.db.execute("SELECT key FROM events").fetchall() == [(digest("kimi-code", "b"),)]
    assert ledger.db.execute("SELECT reason FROM skips").fetchall() == [("a token count that no request can have",)]
