"""`corral serve` in the home of a CLI under test: its tabs, and all the ways to lose them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from corral.model.terminal import Terminal as HeldTerminal
from corral.terminals.directory import list_terminals
from tests.contract.corral_cli import Corral
from tests.contract.driver import Driver
from tests.contract.processes import Proc, descendants, find_marked, is_running, read_proc, stop_all
from tests.contract.steps import wait_dead
from tests.contract.tab_window import AttachedTerminal, TabWindow
from tests.contract.tui import READY_SECONDS, Tui
from tests.integration.server.serving import Answer, Serving

_STEP_SECONDS = 0.1


class TabWorld:
    """A server, its tabs and their agents. At the end nothing of it runs any more."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.root = driver.home.root
        self.work = driver.home.work_dir
        self.state = self.root / ".local" / "state" / "corral"
        self.env = dict(driver.home.env)
        self._cli = Corral(driver.home, driver.name)
        self.serving = Serving(self)

    def corral(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._cli.run(*words)

    # --- tabs

    def ask_for_tab(self, **more: Any) -> Answer:
        return self.serving.ask("POST", "/api/tabs", {"provider": self.driver.name, "work_dir": str(self.work), **more})

    def start_tab(self, **more: Any) -> str:
        answer = self.ask_for_tab(trust=True, **more)
        assert answer.status == 201, answer
        return answer.body["tab"]

    def open_tab(self, tab: str) -> Answer:
        return self.serving.ask("POST", f"/api/tabs/{tab}/open", {})

    def tab(self, tab: str) -> Any:
        return self.serving.tabs()[tab]

    def wait_tab(self, tab: str, test: Callable[[Any], bool]) -> Any:
        """Asks again until the tab is so. Slowly: the agents need the machine."""
        deadline = time.monotonic() + READY_SECONDS
        while (shown := self.serving.tabs().get(tab)) is None or not test(shown):
            assert time.monotonic() < deadline, shown
            time.sleep(_STEP_SECONDS)
        return shown

    def wait_state(self, tab: str, *states: str) -> Any:
        return self.wait_tab(tab, lambda shown: shown["state"] in states)

    def agent(self, tab: str) -> Tui:
        """The agent in a tab, as the page shows it; ready for input."""
        agent = self.driver.on(TabWindow(self.serving, tab))
        agent.wait_ready()
        return agent

    def attached(self, tab: str) -> Tui:
        """The same without a server, by `corral attach`."""
        (held,) = [one for one in self.terminals() if one.tab == tab]
        agent = self.driver.on(AttachedTerminal(self.driver.home, tab, held.child.pid))
        agent.wait_ready()
        return agent

    def wait_served(self, tab: str, session_id: str, pid: int) -> None:
        """Waits until the tab has this session, live, served by this process."""

        def is_served(shown: Any) -> bool:
            session = self.serving.sessions().get(session_id)
            return session is not None and (session["ref"], session["tab"]) == (shown["ref"], tab)

        shown = self.wait_tab(tab, is_served)
        session = self.serving.sessions()[session_id]
        assert (session["state"], session["pids"], shown["state"]) == ("live", [pid], "running"), (session, shown)
        assert shown["restorable"] and shown["live_only_reason"] is None

    # --- losing them

    def terminals(self) -> Sequence[HeldTerminal]:
        return list_terminals(str(self.state / "terminals"))

    def lose_holders(self) -> None:
        """The holders are killed; the agents get a hang-up, as when a window is closed."""
        holders, agents = self._running()
        for process in holders:
            send(process, signal.SIGKILL)
        for process in (*holders, *agents):
            wait_dead(process)

    def lose_power(self) -> None:
        """Everything is killed at once, and nobody can say goodbye: not an agent that is hung up, nor its holder."""
        holders, agents = self._running()
        for process in holders:
            send(process, signal.SIGSTOP)
        for process in (*agents, *holders):
            send(process, signal.SIGKILL)
        for process in (*agents, *holders):
            wait_dead(process)

    def _running(self) -> tuple[list[Proc], list[Proc]]:
        """The holders, and all that runs in their terminals."""
        named = [one.holder for one in self.terminals() if one.holder is not None]
        found = [(read_proc(holder.pid), holder.start_ticks) for holder in named]
        holders = [proc for proc, ticks in found if proc is not None and proc.start_ticks == ticks]
        pids = [holder.pid for holder in holders]
        return holders, [proc for proc in descendants(*pids) if proc.pid not in pids]

    def end(self) -> None:
        self.serving.kill()
        self.lose_power()
        # Whatever left its parents, guards too: this HOME is nobody else's.
        stop_all(find_marked("HOME", str(self.root)))


def send(proc: Proc, number: signal.Signals) -> None:
    if is_running(proc):
        os.kill(proc.pid, number)
