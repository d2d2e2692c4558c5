"""`corral usage --check`, `--rebuild` and `--acknowledge`; and that a loss is said by every view until then."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from corral.usage.checks import SUM_OF_NUMBERS, put_seal, seal_table, set_sums, sum_row
from corral.usage.sums import _UNNAMED, _seal_whole, _tally_days, rebuild_sums
from tests.integration.usage.world import World, tear_first_page


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.session("s", *(world.line() for _ in range(20)))
    world.session("t", *(world.line() for _ in range(10)))
    assert world.events() == 30
    return world


def change(world: World, *statements: str) -> None:
    with sqlite3.connect(world.state / "ledger.db") as db:
        for statement in statements:
            assert db.execute(statement).rowcount
    db.close()


def lose_one(world: World) -> None:
    """A request of which no log and no copy tells any more."""
    shutil.rmtree(world.bucket)
    for copy in world.state.glob("ledger.db.*"):
        copy.unlink()
    change(world, "UPDATE events SET input = 7 WHERE at = 1794000005")
    assert world.events() == 30  # the sums are right still
    assert "missing" in world.run("usage", "--rebuild").stdout


class TestCheck:
    def test_a_ledger_in_order_says_what_the_logs_say(self, world: World) -> None:
        done = world.run("usage", "--check")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "30 requests" in done.stdout and "matches the logs" in done.stdout

    def test_lines_that_nobody_has_read_yet_are_no_difference(self, world: World) -> None:
        world.session("s", world.line())
        assert world.run("usage", "--check").returncode == 0
        shutil.rmtree(world.state)
        assert world.run("usage", "--check").returncode == 0

    @pytest.mark.parametrize(
        ("statement", "table"),
        [
            ("UPDATE events SET output = 14 WHERE at = 1794000005", "events"),
            ("DELETE FROM sessions WHERE session_id = 't'", "sessions"),
            ("UPDATE quarters SET input = input + 1", "sums"),
        ],
    )
    def test_it_names_what_is_damaged_and_changes_nothing(self, world: World, statement: str, table: str) -> None:
        change(world, statement)
        for _ in range(2):
            done = world.run("usage", "--check", "--json")
            assert done.returncode == 1
            assert table in json.loads(done.stdout)["damaged"]
        assert world.run("usage", "--rebuild").returncode == 0
        assert world.run("usage", "--check").returncode == 0
        assert world.events() == 30

    @pytest.mark.parametrize(
        "table", ["about", "homes", "sessions", "events", "actions", "sources", "labels", "quarters", "seals", "memo"]
    )
    def test_a_page_that_is_torn_is_named_and_left_as_it_is(self, world: World, table: str) -> None:
        path = world.state / "ledger.db"
        tear_first_page(path, table)
        before = path.read_bytes()
        for _ in range(2):
            done = world.run("usage", "--check", "--json")
            assert done.returncode == 1 and json.loads(done.stdout)["damaged"], done.stdout + done.stderr
        assert path.read_bytes() == before and not list(world.state.glob("ledger.db.broken-*"))
        assert world.run("usage", "--rebuild").returncode == 0
        assert world.run("usage", "--check").returncode == 0

    def test_what_is_no_ledger_is_named_and_left_as_it_is(self, world: World) -> None:
        path = world.state / "ledger.db"
        path.write_bytes(b"nothing that SQLite knows" * 1000)
        done = world.run("usage", "--check")
        assert done.returncode == 1 and "damaged: file is not a database" in done.stdout, done.stdout + done.stderr
        assert path.read_bytes() == b"nothing that SQLite knows" * 1000

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE quarters SET input = input + 1",
            f"UPDATE quarters SET label = {_UNNAMED}",
            "UPDATE quarters SET turns = 1",
        ],
    )
    def test_sums_that_are_not_those_of_the_requests_are_named(self, world: World, change: str) -> None:
        """As a fault of our own would leave them: sealed, and wrong."""
        with sqlite3.connect(world.state / "ledger.db") as db:
            db.execute(change)
            db.execute(f"UPDATE quarters SET sum = {SUM_OF_NUMBERS}")
            days = _tally_days(db, "1")
            for day, seal in days.items():
                put_seal(db, "quarters", day, seal)
            _seal_whole(db, days)
        db.close()
        done = world.run("usage", "--check", "--json")
        assert done.returncode == 1 and json.loads(done.stdout)["damaged"] == ["sums"]

    def test_it_names_each_price_that_differs(self, world: World) -> None:
        with sqlite3.connect(world.state / "ledger.db") as db:
            db.create_function("row_sum", -1, sum_row)
            db.execute("UPDATE events SET picos = picos + 1 WHERE at = 1794000005")
            set_sums(db, "events")
            seal_table(db, "events")
            rebuild_sums(db)
        db.close()
        found = json.loads(world.run("usage", "--check", "--json").stdout)
        (difference,) = found["differences"]
        assert difference["at"] == 1794000005.0 and difference["problem"].startswith("picos is ")

    def test_it_names_each_request_that_differs(self, world: World) -> None:
        """As a fault of our own would leave it: sealed, and wrong."""
        with sqlite3.connect(world.state / "ledger.db") as db:
            db.create_function("row_sum", -1, sum_row)
            db.execute("UPDATE events SET output = 14 WHERE at = 1794000005")
            set_sums(db, "events")
            seal_table(db, "events")
            rebuild_sums(db)
        db.close()
        done = world.run("usage", "--check", "--json")
        found = json.loads(done.stdout)
        assert done.returncode == 1 and found["damaged"] == []
        assert found["differences"] == [
            {
                "what": "request",
                "at": 1794000005.0,
                "session": "kimi-cli:s",
                "problem": "output is 14 in the ledger and 13 in the log",
            }
        ]

    def test_what_only_the_ledger_knows_is_no_difference(self, world: World) -> None:
        shutil.rmtree(world.bucket / "t")
        found = json.loads(world.run("usage", "--check", "--json").stdout)
        assert (found["compared"], found["only_in_ledger"], found["differences"]) == (20, 10, [])


class TestRebuild:
    def test_nothing_that_only_the_ledger_knows_is_dropped(self, world: World) -> None:
        shutil.rmtree(world.bucket / "t")
        before = world.usage("--by", "session")
        done = world.run("usage", "--rebuild")
        assert done.returncode == 0 and "rebuilt" in done.stdout, done.stderr
        assert world.usage("--by", "session") == before
        assert len(list(world.state.glob("ledger.db.broken-*[0-9]"))) == 1

    def test_the_project_that_only_the_ledger_knows_stays(self, world: World) -> None:
        """Kimi CLI names it in kimi.json alone, and forgets it there."""
        before = world.usage("--by", "project")["rows"]
        (world.root / ".kimi" / "kimi.json").write_text('{"work_dirs": []}')
        world.session("s", world.line())
        (row,) = world.usage("--by", "project")["rows"]
        assert row["key"] == before[0]["key"] and row["events"] == 31
        assert world.run("usage", "--rebuild").returncode == 0
        assert world.usage("--by", "project")["rows"] == [row]

    def test_without_a_ledger_it_makes_one(self, world: World) -> None:
        shutil.rmtree(world.state)
        assert world.run("usage", "--rebuild").returncode == 0
        assert world.events() == 30

    @pytest.mark.parametrize(
        "words", [["--rebuild", "--check"], ["--rebuild", "--by", "day"], ["--acknowledge", "--csv"]]
    )
    def test_it_is_about_the_whole_ledger(self, world: World, words: list[str]) -> None:
        assert world.run("usage", *words).returncode == 2


class TestLoss:
    def test_it_is_said_by_every_view_until_it_is_acknowledged(self, world: World) -> None:
        lose_one(world)
        report = world.usage("--since", "2020-01-01", "--by", "session")
        assert report["total"]["events"] == 29
        (loss,) = report["losses"]
        assert (loss["what"], loss["events"]) == ("requests", 1)
        assert loss["since"] <= 1794000005 <= loss["until"] <= loss["since"] + 900
        for _ in range(2):
            said = world.run("usage").stdout
            assert "1 requests of 2026-11-06 are missing" in said and "--acknowledge" in said
            assert "missing" in world.run("usage", "--by", "tool").stdout
            assert "missing" in world.run("usage", "--csv").stderr
            assert "missing" in world.run("usage", "--explain", "s").stdout
            for words in (["--check"], ["--explain", "s"]):
                assert json.loads(world.run("usage", *words, "--json").stdout)["losses"] == [loss]
            assert "ledger!" in world.run("statusline").stdout
            assert "! 1 requests of 2026-11-06 are missing" in world.run("ps", "--all", "--usage").stdout
            assert json.loads(world.run("statusline", "--json").stdout)["today"]["losses"] == [loss]
            asked = world.run("sql", "--json", "SELECT count(*) AS n FROM usage_events")
            assert json.loads(asked.stdout) | {"losses": [loss]} == json.loads(asked.stdout)
            assert "are missing" in asked.stderr
        assert "1 requests" in world.run("usage", "--acknowledge").stdout
        assert world.usage()["losses"] == [] and "missing" not in world.run("usage").stdout
        assert "ledger!" not in world.run("statusline").stdout
        assert "missing" not in world.run("ps", "--all", "--usage").stdout
        assert "there are no known losses" in world.run("usage", "--acknowledge").stdout

    def test_it_survives_the_next_damage(self, world: World) -> None:
        lose_one(world)
        (loss,) = world.usage()["losses"]
        change(world, "UPDATE quarters SET input = input + 1")
        report = world.usage()
        assert report["losses"] == [loss] and report["total"]["events"] == 29

    @pytest.mark.parametrize(
        "damage", ["UPDATE losses SET acknowledged = 1", "UPDATE losses SET rows = 0", "DELETE FROM losses"]
    )
    def test_one_that_is_damaged_itself_is_not_forgotten(self, world: World, damage: str) -> None:
        lose_one(world)
        change(world, damage)
        for _ in range(2):
            report = world.usage()
            assert report["total"]["events"] == 29
            (loss,) = report["losses"]
            assert loss["events"] is None and "may be missing" in report["notes"][0]

    def test_logs_that_nobody_had_read_do_not_stand_for_what_is_lost(self, world: World) -> None:
        os.utime(world.bucket / "s" / "wire.jsonl", (1_794_000_020, 1_794_000_020))  # as old as its last line
        world.usage()
        shutil.rmtree(world.bucket / "t")
        for copy in world.state.glob("ledger.db.*"):
            copy.unlink()
        change(world, "DELETE FROM events WHERE at > 1794000025", "UPDATE homes SET sum = 7")
        world.session("new", *(world.line() for _ in range(9)))
        world.session("s", *(world.line() for _ in range(3)))
        os.utime(world.state / "ledger.db", (1_795_000_000, 1_795_000_000))
        report = world.usage()
        assert report["total"]["events"] == 25 + 9 + 3
        assert [(loss["what"], loss["events"]) for loss in report["losses"]] == [("requests", 5)]

    @pytest.mark.parametrize("damage", ["UPDATE skips SET reason = 'another'", "DELETE FROM skips"])
    def test_a_line_that_was_skipped_in_a_log_that_is_gone_is_one(self, world: World, damage: str) -> None:
        world.session("u", "no record at all\n")
        assert len(world.usage()["skipped"]) == 1
        change(world, damage)
        report = world.usage()
        assert len(report["skipped"]) == 1 and report["losses"] == []
        shutil.rmtree(world.bucket / "u")
        for copy in world.state.glob("ledger.db.*"):
            copy.unlink()
        assert len(world.usage()["skipped"]) == 1
        change(world, damage)
        report = world.usage()
        assert report["skipped"] == []
        assert [(loss["what"], loss["events"]) for loss in report["losses"]] == [("notes on skipped lines", 1)]

    def test_the_rows_of_another_table_are_not_believed(self, world: World) -> None:
        """Homes and labels are a number and two words each: their checksums are right in either place."""
        shutil.rmtree(world.bucket)
        for copy in world.state.glob("ledger.db.*"):
            copy.unlink()
        change(world, "DELETE FROM homes", "INSERT INTO homes SELECT * FROM labels")
        report = world.usage("--by", "provider")
        assert {row["key"]["provider"]: row["events"] for row in report["rows"]} == {"kimi-cli": 30}

    def test_requests_are_missed_also_where_their_seal_is_gone(self, world: World) -> None:
        """The sums know how many there were."""
        shutil.rmtree(world.bucket)
        for copy in world.state.glob("ledger.db.*"):
            copy.unlink()
        change(world, "DELETE FROM events WHERE at > 1794000025", "DELETE FROM seals WHERE name = 'events'")
        report = world.usage("--since", "2026-01-01")
        assert report["total"]["events"] == 25
        assert [(loss["what"], loss["events"]) for loss in report["losses"]] == [("requests", 5)]

    def test_a_file_of_which_nothing_can_be_read_may_have_known_more(self, world: World) -> None:
        for copy in world.state.glob("ledger.db.*"):
            copy.unlink()
        (world.state / "ledger.db").write_bytes(b"nothing that SQLite knows" * 1000)
        report = world.usage()
        assert report["total"]["events"] == 30
        assert [loss["events"] for loss in report["losses"]] == [None]
        assert "may be missing" in report["notes"][0]
