"""A server that is killed over and over, at any moment of its life, and what is left of its tabs afterwards."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

from corral.model.terminal import Standing
from corral.terminals.directory import list_terminals
from tests.integration.server.serving import Serving
from tests.integration.terminals.held import wait_until

LOOK_EVERY = 10


def start_tabs(serving: Serving, count: int) -> dict[str, int]:
    """So many tabs, each with the pid of its program."""
    with ThreadPoolExecutor(4) as pool:
        tabs = list(pool.map(lambda _: serving.start_tab(), range(count)))
    shown = serving.tabs()
    return {tab: shown[tab]["pid"] for tab in tabs}


def endure(serving: Serving, pids: dict[str, int], kills: int, seed: int) -> int:
    """Kill it as soon as it serves, or somewhere in its start; look at every tab now and then and at the end.

    How often a whole start was waited for and every tab compared.
    """
    chance = random.Random(seed)
    looks = 0
    for number in range(1, kills + 1):
        serving.kill()
        if number % LOOK_EVERY == 0 or number == kills:
            serving.start()
            check(serving, pids)
            looks += 1
        else:
            serving.spawn()
            assert serving.process is not None
            # Anywhere between its first instruction and its first answers: no condition could be waited for.
            chance_seconds = chance.uniform(0.0, 0.7)
            time.sleep(chance_seconds)
    return looks


def check(serving: Serving, pids: dict[str, int]) -> None:
    """Every tab has its own process, and there is no terminal that no tab shows."""
    wait_until(lambda: all(one["ref"] for one in serving.tabs().values()), "the session of every tab")
    shown = serving.tabs()
    assert {tab: one["pid"] for tab, one in shown.items()} == pids
    assert {one["state"] for one in shown.values()} == {"running"}
    held = list_terminals(str(serving.world.state / "terminals"))
    assert {one.tab for one in held if one.standing is Standing.RUNNING} == set(pids)
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids.values())
