"""Rows that were kept answer only for the ledger they were added up from."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from corral.engine.kept_sums import ROWS, keep_found
from corral.engine.kept_sums import find_rows as find_named
from corral.engine.usage_groups import add_up
from corral.engine.usage_types import UsageQuery
from corral.store.ledger import Ledger
from tests.unit.store.readings import MadeUpPricer, reading

QUERY = UsageQuery(zone=UTC)


def find_rows(ledger: Ledger, question: str, add_up):
    rows = find_named(ledger, ROWS, question, add_up)
    keep_found(ledger)
    return rows


def test_they_are_used_until_another_process_stores_something(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).store([reading("s", [("a", 1_000.0, 10, "m")])], MadeUpPricer())
    here, other = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    assert add_up(here, QUERY) == add_up(other, QUERY)
    assert find_rows(other, "?", list) == find_rows(here, "?", lambda: [("never asked",)]) == []
    other.store([reading("t", [("b", 90_000.0, 10, "m")])], MadeUpPricer())
    assert set(add_up(here, QUERY)) == {("1970-01-01",), ("1970-01-02",)}
    assert find_rows(here, "?", lambda: [("asked",)]) == [("asked",)]


def test_another_question_has_another_answer(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).store([reading("s", [("a", 1_000.0, 10, "m")])], MadeUpPricer())
    ledger = Ledger(str(tmp_path))
    assert set(add_up(ledger, QUERY)) == {("1970-01-01",)}
    assert set(add_up(ledger, QUERY._replace(by=("model",)))) == {("m",)}
    assert set(add_up(ledger, QUERY)) == {("1970-01-01",)}


def test_rows_of_a_ledger_that_changed_meanwhile_are_never_taken_for_its_own(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).store([reading("s", [("a", 1_000.0, 10, "m")])], MadeUpPricer())
    ledger, other = Ledger(str(tmp_path)), Ledger(str(tmp_path))

    def add_while_another_stores() -> list[tuple[str]]:
        other.store([reading("t", [("b", 2_000.0, 10, "m")])], MadeUpPricer())
        return [("of before",)]

    assert find_rows(ledger, "?", add_while_another_stores) == [("of before",)]
    assert find_rows(ledger, "?", lambda: [("of now",)]) == [("of now",)]


def test_a_ledger_that_another_is_writing_answers_all_the_same(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).store([reading("s", [("a", 1_000.0, 10, "m")])], MadeUpPricer())
    ledger, other = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    other.db.execute("BEGIN IMMEDIATE")
    assert set(add_up(ledger, QUERY)) == {("1970-01-01",)}
    other.db.execute("ROLLBACK")
    assert ledger.db.execute("PRAGMA busy_timeout").fetchone()[0] > 0
