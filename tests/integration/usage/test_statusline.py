"""`corral statusline`: one line, whatever happens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.usage.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zone in which it is noon now: no test runs across midnight."""
    monkeypatch.setattr(World, "zone", f"NOON{time.gmtime().tm_hour - 12:+d}")


def write_today(world: World, requests: int) -> None:
    """Requests of this very moment."""
    now = time.time()
    lines: list[str] = []
    for number in range(requests):
        record = json.loads(world.line())
        record["timestamp"] = now + number / 1000
        lines.append(json.dumps(record) + "\n")
    world.session("s", *lines)


def read_all(world: World) -> None:
    """Let it read in as many turns as it needs: each has a fraction of a second, which a busy machine may take."""
    give_up = time.monotonic() + 60
    while not json.loads(world.run("statusline", "--json").stdout)["today"]["complete"]:
        if time.monotonic() > give_up:
            raise TimeoutError("it does not read to the end")


def test_one_line_says_what_today_used(world: World) -> None:
    world.session("old", world.line())
    write_today(world, 40)
    read_all(world)
    done = world.run("statusline")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "~$0.01 today" in done.stdout and "40 k tok" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x1b[" in world.run("statusline", "--color").stdout
    found = json.loads(world.run("statusline", "--json").stdout)
    assert (found["today"]["requests"], found["today"]["tokens"], found["problems"]) == (40, 40 * 1013, [])
    assert found["today"]["complete"] is True


def test_an_empty_home_has_a_line_too(world: World) -> None:
    done = world.run("statusline")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"[◆●✖]\d.* · \$0\.00 today · 0 tok\n", done.stdout)  # agents of this machine may run


def test_it_does_not_wait_for_standard_input(world: World) -> None:
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "corral", "statusline"],
            env=world.env,
            stdin=reading,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0 and "today" in done.stdout


def test_a_part_that_can_not_be_known_is_a_word_and_no_failure(world: World) -> None:
    state = world.root / ".local" / "state" / "corral"
    state.mkdir(parents=True)
    (state / "ledger.db").mkdir()
    done = world.run("statusline")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage?" in done.stdout
    found = json.loads(world.run("statusline", "--json").stdout)
    assert found["today"] is None and found["sessions"] is not None
    assert "ledger" in found["problems"][0]


def test_a_long_log_is_left_for_the_next_full_reading(world: World) -> None:
    write_today(world, 1)
    wire = world.session("long", world.line())
    with open(wire, "a") as file:
        file.write((json.dumps({"text": "x" * 1000}) + "\n") * 10_000)
    line = world.run("statusline").stdout
    assert "≥" in line
    assert world.run("usage").returncode == 0
    assert "≥" not in world.run("statusline").stdout


def test_a_configured_budget_is_shown(world: World) -> None:
    config = world.root / ".config" / "corral"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[budget]\nday = 0.01\nmonth = 1000\n")
    write_today(world, 60)
    read_all(world)
    assert "of the day's budget" in world.run("statusline").stdout
    budgets = json.loads(world.run("statusline", "--json").stdout)["today"]["budgets"]
    assert {budget["per"]: budget["over"] for budget in budgets} == {"day": True, "month": False}


def test_a_faulty_configuration_is_a_word_in_the_line(world: World) -> None:
    config = world.root / ".config" / "corral"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[budget]\nfortnight = 5\n")
    done = world.run("statusline")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" · config?\n")
    assert "fortnight" in json.loads(world.run("statusline", "--json").stdout)["config_problem"]
    assert world.run("config").returncode == 1


def test_ps_says_what_each_session_cost_today(world: World) -> None:
    world.session("old", world.line())
    write_today(world, 40)
    done = world.run("ps", "--all", "--usage")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    column = head.index("TODAY")
    session = head.index("SESSION")
    spent = {line[session:].split()[0]: line[column:].split()[0] for line in rows if "kimi-cli" in line}
    assert (spent["s"], spent["old"]) == ("~$0.01", "–")
    assert "TODAY" not in world.run("ps", "--all").stdout
    assert world.run("ps", "--usage", "--json").returncode == 2
