"""What `corral usage` draws on a real terminal, and only there."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.usage.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    noon = time.time() // 86_400 * 86_400 + 43_200  # UTC: no row of a day is cut by midnight
    for days, requests in ((5, 900), (2, 300)):
        for _ in range(requests):
            record = json.loads(world.line())
            record["timestamp"] = noon - days * 86_400 + world.number / 1000
            world.session("s", json.dumps(record) + "\n")
    return world


def on_a_terminal(world: World, *words: str, columns: int) -> str:
    """What a terminal of that width is sent."""
    ours, theirs = pty.openpty()
    env = world.env | {"TERM": "xterm", "COLUMNS": str(columns), "TZ": "UTC"}
    process = subprocess.Popen(
        [sys.executable, "-m", "corral", *words], env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    sent = b""
    try:
        while chunk := os.read(ours, 65_536):
            sent += chunk
    except OSError:
        pass  # the terminal's other end is closed: the program has ended
    finally:
        os.close(ours)
    assert process.wait(60) == 0
    return sent.decode()


def test_a_project_has_a_bar_and_the_course_of_its_last_days(world: World) -> None:
    drawn = on_a_terminal(world, "usage", "--by", "project", columns=200)
    assert "14 DAYS" in drawn
    (line,) = [line for line in drawn.splitlines() if "app" in line]
    assert "█" * 10 in line
    days = line.split()[-1]
    assert len(days) == 14 and days.count("·") == 12
    assert days.index("█") < days.index("▃")


def test_days_have_bars_and_no_sparkline(world: World) -> None:
    drawn = on_a_terminal(world, "usage", columns=200)
    assert "DAYS" not in drawn
    assert [line.count("█") for line in drawn.splitlines() if line.startswith("20")] == [10, 3]


def test_drawings_give_way_in_a_narrow_terminal(world: World) -> None:
    drawn = on_a_terminal(world, "usage", "--by", "project", columns=90)
    lines = re.sub(r"\x1b\[\d+m", "", drawn).splitlines()
    assert len(lines) >= 3 and all(len(line) <= 90 for line in lines[:3])
    assert "COST" in drawn and "DAYS" not in drawn and "…" not in drawn


def test_in_a_pipe_nothing_is_drawn(world: World) -> None:
    done = world.run("usage", "--by", "project")
    assert done.returncode == 0
    assert "█" not in done.stdout and "DAYS" not in done.stdout and "\x1b" not in done.stdout
