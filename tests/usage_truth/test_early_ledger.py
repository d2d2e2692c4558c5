"""A ledger that an earlier corral made (schema 3, without checksums) is taken over with all that it knows."""

from __future__ import annotations

import os
import sqlite3
from datetime import UTC
from pathlib import Path

import pytest

from corral.engine.account import update_ledger
from corral.engine.ledger_access import ask_ledger
from corral.engine.usage_report import UsageQuery, UsageReport, report_usage
from corral.store.ledger import SCHEMA, Ledger
from tests.integration.usage.world import World
from tests.unit.store.readings import check_all

_BUCKET = "4a7d47fa6394e050c46476bfd65b7031"
"""Where kimi-cli keeps the sessions of that directory."""
_BAD = '{"timestamp": 1794000000.5, "message": {"type": "StatusUpdate", "payload": {"token_usage": 7}}}\n'
_TURN = '{"timestamp": 1794000000.5, "message": {"type": "TurnBegin", "payload": {"user_input": "x"}}}\n'


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three sessions with six requests, of which a fork copied three: as that corral read them."""
    world = World(tmp_path)
    for name in os.environ:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    world.state.mkdir(parents=True)
    made = (Path(__file__).parent / "ledger_schema_3.sql").read_text().replace("/home/ada", str(tmp_path))
    made = made.replace(_BUCKET, world.bucket.name)
    with sqlite3.connect(world.state / "ledger.db") as db:
        db.executescript(made)
    db.close()
    return world


def write_logs(world: World) -> None:
    lines = [world.line() for _ in range(6)]
    world.session("aaaa", _TURN, *lines[:3])
    world.session("bbbb", *lines[:5])
    world.session("cccc", _BAD, lines[5])


def ask() -> UsageReport:
    def report(ledger: Ledger) -> UsageReport:
        update_ledger(ledger)
        check_all(ledger)
        assert ledger.db.execute("SELECT schema FROM about").fetchone() == (SCHEMA,)
        return report_usage(ledger, UsageQuery(by=("session",), zone=UTC))

    return ask_ledger(report)


def check(report: UsageReport) -> None:
    assert {row.key["session"]: row.events for row in report.rows} == {
        "kimi-cli:aaaa": 3,
        "kimi-cli:bbbb": 2,
        "kimi-cli:cccc": 1,
    }
    assert report.total.tokens[:5] == (2400, 3600, 0, 0, 78)
    assert report.total.turns == 1 and report.total.cost.assumed_events == 6
    assert len(report.skipped) == 1 and report.losses == ()


def test_when_its_logs_are_gone_nothing_is_forgotten(world: World) -> None:
    report = ask()
    check(report)
    assert "schema 3" in (report.notice or "") and list(world.state.glob("ledger.db.broken-*"))
    again = ask()
    check(again)
    assert again.notice is None


def test_what_its_logs_still_tell_is_counted_once(world: World) -> None:
    write_logs(world)
    check(ask())


def test_a_wrong_number_in_it_is_put_right_by_the_logs(world: World) -> None:
    write_logs(world)
    with sqlite3.connect(world.state / "ledger.db") as db:
        db.execute("UPDATE events SET input = 7")
    db.close()
    check(ask())


def test_the_model_that_was_assumed_first_stays(world: World) -> None:
    write_logs(world)
    world.set_model("another")
    ask_ledger(update_ledger)
    with sqlite3.connect(world.state / "ledger.db") as db:
        assert db.execute("SELECT DISTINCT model, model_source FROM events").fetchall() == [("kimi-k2.5", "config")]
    db.close()
