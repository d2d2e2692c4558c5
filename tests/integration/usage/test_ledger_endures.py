"""The ledger as processes treat it: killed at any instant, several at once, no place to write, a page that is torn."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.usage.answers import ask_ledger
from corral.usage.ledger import Ledger
from tests.integration.usage.test_usage_command import World
from tests.integration.usage.world import tear_first_page
from tests.unit.usage.readings import kept_sums, kept_turns, true_sums, true_turns


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def state_of(world: World) -> Path:
    return world.root / ".local" / "state" / "corral"


def start(world: World) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        world.command(), env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def check_sums(world: World) -> None:
    ledger = Ledger(str(state_of(world)))
    assert kept_sums(ledger) == true_sums(ledger)
    assert kept_turns(ledger) == true_turns(ledger)
    assert ledger.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.close()


def forget(world: World) -> None:
    """As on the first day: the next run counts everything anew."""
    for path in state_of(world).glob("ledger.db*"):
        path.unlink()


def test_killed_at_any_instant_it_ends_as_one_full_reading(world: World) -> None:
    chance = random.Random(11)
    lines = [world.line() for _ in range(40)]
    for number in range(30):
        world.session(f"s{number:02}", *(world.line() for _ in range(60)))
    world.usage()  # how long one takes on this machine
    begun = time.monotonic()
    forget(world)
    world.usage()
    usual = time.monotonic() - begun
    forget(world)
    written = 30 * 60
    for turn in range(30):
        world.session(f"s{chance.randrange(30):02}", world.line())
        world.session(f"fork{turn % 5}", *lines[: turn + 1])
        written += 1
        process = start(world)
        try:
            process.wait(chance.random() * usual)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
    total = world.usage()["total"]
    check_sums(world)
    forget(world)
    assert total == world.usage()["total"]
    assert total["events"] == written + 30


def test_several_at_once_count_everything_once(world: World) -> None:
    for number in range(20):
        world.session(f"s{number:02}", *(world.line() for _ in range(40)))
    for turn in range(3):
        running = [start(world) for _ in range(4)]
        world.session("s00", world.line())
        assert [process.wait(60) for process in running] == [0] * 4
        assert world.events() == 20 * 40 + turn + 1
    check_sums(world)
    assert sorted(path.name for path in state_of(world).glob("ledger.db.new-*")) == []


def test_without_a_place_to_write_logs_are_counted_all_the_same(world: World) -> None:
    world.session("s", world.line(), world.line())
    (world.root / ".local").write_text("not a directory")
    report = world.usage()
    assert report["total"]["events"] == 2
    assert "can't be written" in report["notice"]


def test_a_page_that_is_torn_is_told_and_the_same_run_is_right(world: World) -> None:
    for number in range(40):
        world.session(f"s{number:02}", *(world.line() for _ in range(40)))
    before = world.usage()["total"]
    tear_first_page(state_of(world) / "ledger.db", "quarters")  # of the sums: it shows only to who reads them
    report = world.usage()
    assert report["total"] == before and "ledger.db.broken-" in report["notice"]
    assert world.usage()["notice"] is None
    check_sums(world)


def test_a_status_line_bears_a_torn_page(world: World) -> None:
    world.session("s", *(world.line() for _ in range(40)))
    world.usage()
    tear_first_page(state_of(world) / "ledger.db", "quarters")  # of the sums: it shows only to who reads them
    command = [sys.executable, "-m", "corral", "statusline", "--json"]
    done = subprocess.run(command, env=world.env, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["problems"] == []
    assert list(state_of(world).glob("ledger.db.broken-*"))


def test_a_ledger_that_stays_torn_is_made_anew_once_and_then_told(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked: list[Ledger] = []

    def ask(ledger: Ledger) -> None:
        asked.append(ledger)
        raise sqlite3.DatabaseError("database disk image is malformed")

    Ledger(str(tmp_path / "corral")).close()
    with pytest.raises(CorralError, match="malformed"):
        ask_ledger(ask)
    assert len(asked) == 2 and len(list(tmp_path.rglob("ledger.db.broken-*[0-9]"))) == 1


def test_several_that_find_it_unusable_save_it_once(world: World) -> None:
    for number in range(5):
        world.session(f"s{number}", *(world.line() for _ in range(40)))
    assert world.events() == 200
    world.session("s0", world.line())  # the copy of today does not have it
    assert world.events() == 201
    shutil.rmtree(world.bucket)
    with sqlite3.connect(state_of(world) / "ledger.db") as db:
        db.execute("UPDATE about SET schema = 1")
    db.close()
    running = [start(world) for _ in range(5)]
    assert [process.wait(60) for process in running] == [0] * 5
    assert world.events() == 201
    kept = [path for path in state_of(world).glob("ledger.db.broken-*") if path.suffix[-4:] not in ("-wal", "-shm")]
    assert len(kept) == 1
    check_sums(world)


def test_a_pipe_in_its_place_is_not_waited_for(world: World) -> None:
    world.session("s", world.line(), world.line())
    state_of(world).mkdir(parents=True)
    os.mkfifo(state_of(world) / "ledger.db")
    report = world.usage()
    assert report["total"]["events"] == 2 and "not a regular file" in report["notice"]


def test_copies_are_made_after_a_change_and_never_without(world: World) -> None:
    world.session("s", world.line())
    world.usage()
    copy = state_of(world) / "ledger.db.1"
    assert copy.exists()
    copy.unlink()
    world.usage()
    assert not copy.exists()
    world.session("s", world.line())
    assert world.events() == 2
    assert copy.exists()


def test_damage_that_nobody_has_read_yet_does_not_get_into_a_copy(world: World) -> None:
    world.session("s", world.line())
    world.session("t", world.line())
    assert world.events() == 2
    with sqlite3.connect(state_of(world) / "ledger.db") as db:
        db.execute("UPDATE actions SET at = at + 1")
        db.execute("UPDATE events SET output = 99 WHERE session = (SELECT id FROM sessions WHERE session_id = 't')")
    db.close()
    (state_of(world) / "ledger.db.1").unlink()
    world.session("s", world.line())
    assert world.events() == 3
    world.session("s", world.line())
    assert world.events() == 4
    with sqlite3.connect(state_of(world) / "ledger.db.1") as db:
        assert db.execute("SELECT DISTINCT output FROM events").fetchall() == [(13,)]
    db.close()


@pytest.mark.parametrize("kind", ["grown", "new session", "new sub-agent", "rewritten", "shorter", "new bucket"])
def test_whatever_changes_after_a_first_count_is_noticed(world: World, kind: str) -> None:
    path = world.session("s", *(world.line() for _ in range(3)))
    assert world.events() == 3
    assert world.events() == 3
    more = world.line()
    expected = 4
    if kind == "grown":
        world.session("s", more)
    elif kind == "new session":
        world.session("t", more)
    elif kind == "new sub-agent":
        agent = path.parent / "subagents" / "a1"
        agent.mkdir(parents=True)
        (agent / "wire.jsonl").write_text(more)
        world.session("s", world.line())  # the call that started it
        expected = 5
    elif kind == "rewritten":
        path.write_text(more * 1)
    elif kind == "shorter":
        path.write_text(more[:1])
        expected = 3
    else:
        other = world.bucket.parent / ("0" * 32) / "u"
        other.mkdir(parents=True)
        (other / "wire.jsonl").write_text(more)
    assert world.events() == expected
    check_sums(world)


def test_a_changed_price_changes_the_money_of_what_is_known(world: World) -> None:
    world.session("s", *(world.line() for _ in range(3)))
    before = world.usage()["total"]["cost"]["amount"]
    config = world.root / ".config" / "corral"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[prices."kimi-k2.5"]\ninput = 1\noutput = 2\n')
    after = world.usage()["total"]["cost"]["amount"]
    assert before != after and float(after) == pytest.approx(3 * (1000 * 1 + 13 * 2) / 1e6)
    (config / "config.toml").write_text('[currency]\ncode = "EUR"\nrate = 0.5\n')
    cost = world.usage()["total"]["cost"]
    assert cost["currency"] == "EUR" and float(cost["amount"]) == pytest.approx(float(before) / 2)


def test_a_price_that_leads_nowhere_is_told_as_long_as_it_does(world: World) -> None:
    world.session("s", world.line())
    config = world.root / ".config" / "corral"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[prices."kimi-k2.5"]\nas = "nope"\n[prices."unused"]\nas = "neither"\n')
    note = "the configuration prices 'kimi-k2.5' as 'nope', and no listed model has that name"
    assert world.usage()["notes"] == [note]
    assert world.usage()["notes"] == [note]  # now without reading anything
    assert world.usage("--since", "2026-12-31")["notes"] == []
    (config / "config.toml").write_text('[prices."kimi-k2.5"]\nas = "kimi-k2.6"\n')
    report = world.usage()
    assert report["notes"] == [] and report["total"]["cost"]["unpriced_events"] == 0


def test_another_home_in_the_environment_is_noticed(world: World, tmp_path: Path) -> None:
    world.session("s", world.line())
    assert world.events() == 1
    other = World(tmp_path / "other") if (tmp_path / "other").mkdir() is None else world
    other.session("t", world.line())
    env = {**world.env, "KIMI_SHARE_DIR": str(other.root / ".kimi")}
    done = subprocess.run(
        world.command("--csv", "--by", "session"), env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert "kimi-cli:t" in done.stdout and "kimi-cli:s" in done.stdout
