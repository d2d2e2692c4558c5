"""Agents killed at any moment, for every CLI: none is live once it is dead, and what it wrote is all there."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.contract.corral_cli import Corral, tree
from tests.contract.driver import Driver
from tests.contract.figures import KILLS_OF, note
from tests.contract.looker import Looker, States
from tests.contract.model_calls import Call
from tests.contract.steps import find_session, resume
from tests.contract.terminal import Terminal
from tests.contract.tui import Tui
from tests.long_run import KILLS, KILLS_PER_HOME, MINUTES_VARIABLE, is_time_over, seed_of

LOOKS_MS = (0, 50, 200)
KILL_SECONDS = 60
SERVED = ("live", "pending")
MOMENTS = ("before a prompt", "after a turn", "in a turn", "any time after Enter")


class KillContract:
    """Each part is a home of its own, in which agents begin or resume sessions and are killed one after another."""

    turn_begin: str
    """What stands in the transcript once a turn has begun, and nowhere else."""
    turn_end: str
    """The same of its end."""

    @pytest.mark.timeout(1_200)
    @pytest.mark.parametrize("part", range(KILLS // KILLS_PER_HOME))
    def test_a_killed_agent_is_never_live(self, driver: Driver, part: int, request: pytest.FixtureRequest) -> None:
        if is_time_over():
            pytest.skip(f"the minutes of {MINUTES_VARIABLE} are over")
        corral = Corral(driver.home, driver.name)
        corral.install_hooks()
        loop = _Loop(driver, seed_of(driver.name, part), self._read_state)
        try:
            with Looker(driver.home, driver.name) as looker:
                for number in range(KILLS_PER_HOME):
                    loop.kill_one(number, looker)
            states = corral.states()
            loop.counts.update(f"then {state}" for state in states.values())
        finally:
            note(request.node, f"{KILLS_OF}{driver.name}", **loop.counts)
        assert loop.is_at_rest(states), f"{states} should be {loop.rest}"
        loop.require_all_kept()

    def _read_state(self, agent: Tui, session_id: str) -> str | None:
        """What the provider's disk says of a session at rest; None where nothing was said in it."""
        logs = [log for log in agent.logs() if session_id in str(log)]
        written = "".join(log.read_text(errors="replace").rpartition("\n")[0] for log in logs)
        begin, end = written.rfind(self.turn_begin), written.rfind(self.turn_end)
        if begin < 0:
            return None
        return "orphaned" if end < begin else "idle"


class _Loop:
    def __init__(self, driver: Driver, seed: str, read_state: Callable[[Tui, str], str | None]) -> None:
        self._driver = driver
        self._chance = random.Random(seed)
        self._read_state = read_state
        self._answered: dict[str, list[str]] = {}
        """By session: the prompts whose turn has ended on disk."""
        self._moments: list[str] = []
        self.rest: States = {}
        """What the disk says of every session in which something was said."""
        self.counts = Counter[str]()

    def kill_one(self, number: int, looker: Looker) -> None:
        old = self._chance.choice([None, *self._answered])
        if not self._moments:
            self._moments = self._chance.sample(MOMENTS, len(MOMENTS))
        moment = self._moments.pop()
        text = f"round {number} says {self._chance.getrandbits(32):08x}"
        with resume(self._driver, old) if old else self._driver.start() as agent:
            agent.wait_ready()
            if old:
                looker.wait(lambda states: states.get(old) == "live", f"{old} should be live after its resume")
            call = self._prompt(agent, moment, text)
            if old and call:
                missing = [one for one in self._answered[old] if one not in str(call.messages)]
                assert not missing, f"{old} was resumed without {missing}"
            if moment == MOMENTS[-1]:
                time.sleep(self._chance.uniform(0, 0.3))
            elif call and not old:
                looker.wait(lambda states: "live" in states.values(), "its session should be live")
            self.counts["live before"] += bool(old or (call and moment != MOMENTS[-1]))
            looks = _kill(agent, looker)
            self.counts["kills"] += 1
            self.counts[f"killed {moment}"] += 1
            for when, states in looks.items():
                self.counts[f"looks at {when} ms"] += 1
                served = {one: state for one, state in states.items() if state in SERVED}
                self.counts["false live"] += bool(served)
                assert not served, f"{when} ms after its death ({moment}): {states}"
            agent.server.release()
        if call and agent.is_written(call.completion_id, agent.turn_end):
            self._answered.setdefault(find_session(self._driver, text), []).append(text)
        self._require_rest(agent, looker)

    def _prompt(self, agent: Tui, moment: str, text: str) -> Call | None:
        if moment == "before a prompt":
            return None
        if moment == "after a turn":
            return agent.prompt(text)
        return agent.prompt_no_wait(text if moment == MOMENTS[-1] else f"SLOW600 {text}")

    def _require_rest(self, agent: Tui, looker: Looker) -> None:
        """Its launchers have ended too: every session is what its transcript says, and looking changed nothing."""
        before = tree(self._driver.home.data)
        expected = self.rest = self._read_states(agent)
        looker.wait(self.is_at_rest, f"should be {expected}")
        assert tree(self._driver.home.data) == before

    def is_at_rest(self, states: States) -> bool:
        """As the disk says. One in which nothing was said is empty, or idle where the CLI could resume it."""
        silent = {one: state for one, state in states.items() if one not in self.rest}
        return states == self.rest | silent and set(silent.values()) <= {"empty", "idle"}

    def _read_states(self, agent: Tui) -> States:
        ids = self._driver.session_ids_on_disk()
        return {one: state for one in ids if (state := self._read_state(agent, one))}

    def require_all_kept(self) -> None:
        for session_id, prompts in self._answered.items():
            assert {find_session(self._driver, text) for text in prompts} == {session_id}


def _kill(agent: Tui, looker: Looker) -> dict[int, States]:
    """Kills the process that holds the conversation; time begins when the kernel says that it is dead."""
    assert isinstance(agent.terminal, Terminal)
    pid = agent.serving_pid()
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        dead, _, _ = select.select([handle], [], [], KILL_SECONDS)
        began = time.monotonic()
    finally:
        os.close(handle)
    if not dead:
        raise TimeoutError(f"pid {pid} is not dead {KILL_SECONDS} s after SIGKILL")
    looks: dict[int, States] = {}
    for when in LOOKS_MS:
        time.sleep(max(0.0, began + when / 1000 - time.monotonic()))
        looks[when] = looker.look()
    return looks
