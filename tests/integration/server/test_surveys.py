"""How often the machine is surveyed: once for all lost tabs, and once for each that is opened."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.model.selection import Selection
from corral.sessions.naming import find_by_key
from corral.sessions.survey import take_survey
from corral.tabs import keep_tabs
from tests.integration.terminals.held import is_gone, kill, wait_until

COUNT = 10


class Listings:
    """Counts how often this process lists one directory, as the interpreter itself reports it."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._count = 0
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in ("os.listdir", "os.scandir") and self._path is not None and arguments[0] == self._path:
            self._count += 1

    def during(self, path: Path, work: Callable[[], object]) -> int:
        self._path, self._count = str(path), 0
        work()
        self._path = None
        return self._count


listings = Listings()


@pytest.fixture
def lost(world, monkeypatch):
    """Ten tabs whose terminal and program were killed, and this process in their world."""
    tab = world.run_detached()
    window = world.on_terminal("attach", tab)
    window.wait_screen("session ")
    window.send("hello\r")
    window.wait_screen("hello\n")
    found = world.tab(tab)
    binding = world.state / "bindings" / f"{tab}.json"
    wait_until(lambda: json.loads(binding.read_text())["agent"], "the agent's process")
    identities = [world.identity(found["holder_pid"]), world.identity(found["pid"])]
    for identity in identities:
        kill(identity)
    wait_until(lambda: all(map(is_gone, identities)), "the end of both")
    for number in range(1, COUNT):
        other = f"{number:016x}"
        binding.with_name(f"{other}.json").write_text(binding.read_text().replace(tab, other))
    for variable, value in world.env.items():
        monkeypatch.setenv(variable, value)
    return tab


def test_ten_lost_tabs_are_one_survey_and_a_click_is_one_more(world, lost):
    listed = world.root / ".kimi" / "sessions"
    now = take_survey(Selection())
    keeper = keep_tabs(lambda: now, str(world.root / "log.jsonl"), lambda events: None, lambda progress: None)
    once = listings.during(listed, lambda: take_survey(Selection(id_prefix="", deleted=True)))
    assert once > 0
    assert listings.during(listed, keeper.refresh) == once
    assert {one.state for one in keeper.reports()} == {"gone"} and len(keeper.reports()) == COUNT
    assert listings.during(listed, keeper.refresh) == 0

    (session,) = (one for one in now.sessions if one.key.home.startswith(str(world.root)))
    narrow = listings.during(listed, lambda: find_by_key(session.key, probing=True, deleted=True))
    assert listings.during(listed, lambda: keeper.open_tab(lost)) == narrow
    keeper.stop()
