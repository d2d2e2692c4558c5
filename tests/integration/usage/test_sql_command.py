"""`corral sql`: what can be asked, that nothing can be changed, and what is said of a query that can't be run."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from tests.integration.usage.recorded import Recorded
from tests.integration.usage.world import World, tear_first_page, tear_last_page
from tests.unit.usage.readings import set_schema


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ledger_of(world: World) -> Path:
    return world.root / ".local" / "state" / "corral" / "ledger.db"


def test_sums_in_sql_are_those_of_the_report(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    report = recorded.ask("usage", "--by", "session")
    used = "SELECT provider || ':' || session_id AS name, * FROM usage_sessions WHERE requests + turns > 0"
    rows = recorded.ask("sql", used)["rows"]
    assert {row["name"]: (row["requests"], row["turns"]) for row in rows} == {
        row["key"]["session"]: (row["events"], row["turns"]) for row in report["rows"]
    }
    kinds = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
    sums = ", ".join(f"sum({kind}) AS {kind}" for kind in kinds)
    (events,) = recorded.ask("sql", f"SELECT count(*) AS n, {sums} FROM usage_events")["rows"]
    assert events == {"n": report["total"]["events"]} | report["total"]["tokens"]
    calls = {row["key"]["tool"]: row["calls"] for row in recorded.ask("usage", "--by", "tool")["rows"]}
    named = "SELECT tool || coalesce(' ' || program, '') AS t, count(*) AS n FROM tool_calls GROUP BY 1"
    assert {row["t"]: row["n"] for row in recorded.ask("sql", named)["rows"]} == calls


def test_costs_in_sql_are_those_of_the_report(world: World) -> None:
    world.session("s", *(world.line() for _ in range(7)))
    amount = world.usage()["total"]["cost"]["amount"]
    done = world.run("sql", "--csv", "SELECT sum(cost_usd) FROM usage_events")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[1]) == pytest.approx(float(amount), rel=1e-9)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM main.events",
        "INSERT INTO main.homes (provider, path) VALUES ('x', 'y')",
        "UPDATE main.events SET input = 0",
        "DROP TABLE main.events",
        "CREATE TABLE main.x (y)",
        "CREATE TEMP TABLE x (y)",
        "ATTACH ':memory:' AS other",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA table_info(events)",
        "VACUUM",
        "SELECT load_extension('x')",
        "SELECT key FROM main.events",
        "SELECT * FROM sqlite_master",
        "SELECT 1; DELETE FROM main.events",
        "BEGIN IMMEDIATE",
    ],
)
def test_nothing_but_reading_the_views_is_possible(world: World, query: str) -> None:
    world.session("s", world.line())
    assert world.events() == 1
    before = hashlib.sha256(ledger_of(world).read_bytes()).digest()
    done = world.run("sql", "--stale", query)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("corral: the query can't be run: ")
    assert hashlib.sha256(ledger_of(world).read_bytes()).digest() == before


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT sesion_id FROM turns", "did you mean session_id?"),
        ("SELECT * FROM usage_event", "did you mean usage_events?"),
        ("SELEKT 1", "syntax error"),
        ("  ", "no query was given"),
        ("-- nothing", "only SELECT can be run"),
    ],
)
def test_a_query_that_can_not_be_run_is_told_so(world: World, query: str, said: str) -> None:
    done = world.run("sql", query)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_query_without_end_is_stopped(world: World) -> None:
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c"
    done = world.run("sql", "--timeout", "0.2", endless)
    assert (done.returncode, done.stdout) == (1, "")
    assert "took longer than 0.2 s" in done.stderr


def test_the_ledger_is_brought_up_to_date_unless_told_otherwise(world: World) -> None:
    count = "SELECT count(*) AS n FROM usage_events"
    world.session("s", world.line())
    assert world.run("sql", "--csv", count).stdout == "n\n1\n"
    world.session("s", world.line())
    assert world.run("sql", "--csv", "--stale", count).stdout == "n\n1\n"
    assert world.run("sql", "--csv", count).stdout == "n\n2\n"


def test_without_a_ledger_there_is_a_message(world: World) -> None:
    done = world.run("sql", "--stale", "SELECT 1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "corral usage reads the logs" in done.stderr


def test_values_of_every_kind_are_shown(world: World) -> None:
    query = "SELECT 1 AS a, 2 AS a, x'00ff' AS b, NULL AS c, 1.5 AS d, char(27) || '[31m' AS e"
    done = world.run("sql", "--json", query)
    assert json.loads(done.stdout)["rows"] == [{"a": 1, "a_2": 2, "b": "00ff", "c": None, "d": 1.5, "e": "\x1b[31m"}]
    assert "\x1b" not in world.run("sql", query).stdout


def test_the_schema_lists_every_view(world: World) -> None:
    views = json.loads(world.run("sql", "--schema", "--json").stdout)["views"]
    assert [view["name"] for view in views][:2] == ["usage_events", "usage_sessions"]
    for view in views:
        assert view["name"] in world.run("sql", "--schema").stdout
        done = world.run("sql", "--csv", f"SELECT * FROM {view['name']}")
        assert done.stdout.splitlines()[0].split(",") == [column["name"] for column in view["columns"]]


@pytest.mark.parametrize("words", [["--stale"], []])
def test_a_page_that_is_torn_is_told_and_the_same_answer_is_right(world: World, words: list[str]) -> None:
    world.session("s", *(world.line() for _ in range(40)))
    assert world.events() == 40
    tear_first_page(ledger_of(world), "events")
    done = world.run("sql", "--csv", *words, "SELECT count(*) AS n, sum(input) AS i FROM usage_events")
    assert (done.returncode, done.stdout) == (0, "n,i\n40,16000\n"), done.stderr
    assert done.stderr.count("ledger.db.broken-") == 1
    assert world.run("sql", "--stale", "--csv", "SELECT count(*) AS n FROM usage_events").stderr == ""


def test_what_shows_itself_late_is_noticed_before_the_first_row(world: World) -> None:
    world.session("s", *(world.line() for _ in range(4000)))
    assert world.events() == 4000
    tear_last_page(ledger_of(world), "events")
    done = world.run("sql", "--stale", "--csv", "SELECT * FROM usage_events")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4001
    assert "ledger.db.broken-" in done.stderr


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET input = input + 1 WHERE key = (SELECT min(key) FROM events)",
        "DELETE FROM events WHERE key = (SELECT min(key) FROM events)",
        "UPDATE events SET model = CAST(x'6bff' AS TEXT)",
    ],
)
def test_a_number_that_was_changed_and_a_row_that_is_gone_are_noticed(world: World, damage: str) -> None:
    world.session("s", *(world.line() for _ in range(40)))
    assert world.events() == 40
    with sqlite3.connect(ledger_of(world)) as db:
        db.execute(damage)
    db.close()
    done = world.run("sql", "--csv", "SELECT count(*) AS n, sum(input) AS i FROM usage_events")
    assert (done.returncode, done.stdout) == (0, "n,i\n40,16000\n"), done.stderr


def test_a_torn_ledger_of_a_newer_corral_is_told_and_left_as_it_is(world: World) -> None:
    world.session("s", *(world.line() for _ in range(40)))
    assert world.events() == 40
    tear_first_page(ledger_of(world), "events")
    set_schema(str(ledger_of(world)), 99)
    done = world.run("sql", "--stale", "SELECT sum(input) FROM usage_events")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the ledger below {world.state} can't be used: database disk image is malformed" in done.stderr
    assert not list(world.state.glob("ledger.db.broken-*"))
