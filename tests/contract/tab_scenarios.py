"""What must hold for the tabs of every CLI, written once: fresh, kept, lost, restored, refused.

Few and long, since every start of a CLI costs seconds. What counts is what the model was asked, which process runs, and
what lies on disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.terminals.holder import RING_BYTES
from tests.contract.corral_cli import tree
from tests.contract.driver import Driver
from tests.contract.processes import is_running, read_proc
from tests.contract.steps import find_session
from tests.contract.tab_window import TabWindow
from tests.contract.tab_world import TabWorld
from tests.contract.tui import TURN_SECONDS, Tui


class TabContract:
    """Derive, and provide a `driver` fixture. The flags say what the CLI has."""

    session_at_start = True
    """Whether a session exists before the first prompt."""
    needs_hooks = True
    """Whether only our hooks tell which session a process has."""
    headless: str
    """The command that runs one prompt without a terminal, up to the prompt."""
    place: str
    """Where a session lies below the home, as a pattern with {id}."""
    transcript = ""
    """The file in that place which has the conversation; empty where the place is that file."""

    @pytest.fixture
    def world(self, driver: Driver) -> Iterator[TabWorld]:
        world = TabWorld(driver)
        try:
            yield world
        finally:
            world.end()

    def test_tabs_outlive_the_server_and_come_back_as_the_same_conversations(
        self, driver: Driver, world: TabWorld
    ) -> None:
        self.agree(world)
        one, two = world.start_tab(), world.start_tab()
        with world.agent(one) as agent:
            self.check_fresh(world, one, agent)
            answer = agent.prompt("the first says alder")
            first = find_session(driver, "the first says alder")
            world.wait_served(one, first, agent.serving_pid())
        with world.agent(two) as agent:
            agent.prompt("the second says birch")
            second = find_session(driver, "the second says birch")
            world.wait_served(two, second, agent.serving_pid())
        assert first != second

        # Closed and opened again: the terminal that lives.
        self.close_and_reopen(world, one)
        # The server dies in the middle of an answer, which ends while no server runs.
        with world.agent(one) as agent:
            agent.terminal.wait_screen(f"ANSWER {answer.number} saw")
            self.lose_only_the_server(world, agent)

        # Server and holders die: each comes back by its provider's id alone, with what was said before.
        world.serving.kill()
        world.lose_holders()
        world.serving.start()
        self.restore_all(world, one, two)
        with world.agent(one) as agent:
            self.check_remembers(agent, "alder", but_not="birch")
            world.wait_served(one, first, agent.serving_pid())
        with world.agent(two) as agent:
            self.check_remembers(agent, "birch", but_not="alder")
            world.wait_served(two, second, agent.serving_pid())

        # Another conversation in the same tab, begun while no server ran; then the power fails.
        world.serving.kill()
        with world.attached(one) as agent:
            agent.new_session()
            agent.prompt("the third says cedar")
        third = find_session(driver, "the third says cedar")
        world.lose_power()
        world.serving.start()
        self.restore_all(world, one, two)
        with world.agent(one) as agent:
            self.check_remembers(agent, "cedar", but_not="alder")
            world.wait_served(one, third, agent.serving_pid())
        with world.agent(two) as agent:
            self.check_remembers(agent, "birch", but_not="cedar")
            world.wait_served(two, second, agent.serving_pid())

        # A conversation that was deleted: the one that the tab had before does not take its place.
        world.serving.kill()
        world.lose_power()
        world.serving.start()
        world.wait_state(one, "gone")
        with moved(self.place_of(driver, third), driver.home.root / "aside"):
            self.check_refused(world, one, "transcript_missing")

    def test_what_cannot_come_back_is_refused_visibly_and_nothing_on_disk_changes(
        self, driver: Driver, world: TabWorld
    ) -> None:
        self.agree(world)
        tab = world.start_tab()
        with world.agent(tab) as agent:
            agent.prompt("the outer says elder")
            session_id = find_session(driver, "the outer says elder")
            world.wait_served(tab, session_id, agent.serving_pid())
            self.run_another_inside(world, tab, session_id, agent)
        world.serving.kill()
        world.lose_power()
        world.serving.start()
        gone = world.wait_state(tab, "gone")
        assert gone["restorable"] and gone["pid"] is None

        place = self.place_of(driver, session_id)
        (program,) = (driver.home.root / "bin").iterdir()
        for missing, reason in (
            (driver.home.work_dir, "work_dir_missing"),
            (place / self.transcript, "transcript_missing"),
            (place, "transcript_missing"),
            (program, "provider_missing"),
        ):
            with moved(missing, driver.home.root / "aside"):
                self.check_refused(world, tab, reason)
        assert world.open_tab("f" * 16).status == 404
        assert world.serving.ask("POST", f"/api/sessions/{'f' * 16}/open", {}).status == 404

        # All is there again: the refusals were about that, and the run inside has taken nothing over.
        opened = world.open_tab(tab)
        assert (opened.status, opened.body["plan"]) == (200, "resume"), opened
        with world.agent(tab) as agent:
            self.check_remembers(agent, "elder")
            world.wait_served(tab, session_id, agent.serving_pid())

    def test_without_hooks_a_tab_is_restorable_or_says_that_it_is_live_only(
        self, driver: Driver, world: TabWorld
    ) -> None:
        tab = world.start_tab(live_only=True)
        if self.needs_hooks:
            self.check_live_only(world, tab)
        with world.agent(tab) as agent:
            agent.prompt("nobody tells of fir")
            session_id = find_session(driver, "nobody tells of fir")
            if not self.needs_hooks:
                world.wait_served(tab, session_id, agent.serving_pid())
                return
            self.check_live_only(world, tab)
            # The terminal itself is kept like any other.
            self.lose_only_the_server(world, agent)
        world.serving.kill()
        world.lose_power()
        before = tree(driver.home.data)  # now that the agent writes no more
        world.serving.start()
        world.wait_state(tab, "gone")
        self.check_refused(world, tab, "never_identified")
        assert tree(driver.home.data) == before

    # --- steps

    def agree(self, world: TabWorld) -> None:
        """What the page asks a person before the first tab, and its answers."""
        assert world.ask_for_tab().reason == "ask_trust"
        if not self.needs_hooks:
            return
        assert world.ask_for_tab(trust=True).reason == "hooks_missing"
        installed = world.serving.ask("POST", f"/api/hooks/{world.driver.name}", {})
        assert installed.status == 200, installed

    def check_fresh(self, world: TabWorld, tab: str, agent: Tui) -> None:
        """It takes input; its session is named as soon as the CLI has one."""
        shown = world.wait_state(tab, "running")
        assert [shown["pid"]] == [held.child.pid for held in world.terminals() if held.tab == tab]
        if self.session_at_start:
            ref = world.wait_tab(tab, lambda shown: shown["ref"] and shown["restorable"])["ref"]
            (session,) = [one for one in world.serving.sessions().values() if one["ref"] == ref]
            assert (session["state"], session["pids"], session["tab"]) == ("live", [agent.serving_pid()], tab)
        else:
            assert (shown["ref"], shown["restorable"]) == (None, False) and shown["live_only_reason"]

    def check_live_only(self, world: TabWorld, tab: str) -> None:
        """It never seems to be starting: nobody will say which session it has."""
        shown = world.tab(tab)
        assert (shown["state"], shown["ref"], shown["restorable"]) == ("running", None, False)
        assert "only through hooks" in shown["live_only_reason"]

    def close_and_reopen(self, world: TabWorld, tab: str) -> None:
        before = world.tab(tab)
        assert world.serving.ask("DELETE", f"/api/tabs/{tab}").status == 204
        assert tab not in world.serving.tabs()
        opened = world.serving.ask("POST", f"/api/sessions/{before['ref']}/open", {})
        assert (opened.status, opened.body) == (200, {"tab": tab, "plan": "attach"})
        after = world.tab(tab)
        assert (after["pid"], after["ref"], after["state"]) == (before["pid"], before["ref"], "running")

    def lose_only_the_server(self, world: TabWorld, agent: Tui) -> None:
        """The same process goes on, and every byte of it is shown, once and in order."""
        window = agent.terminal
        assert isinstance(window, TabWindow)
        serving = read_proc(agent.serving_pid())
        call = agent.prompt_no_wait("SLOW600 tell me slowly")
        agent.terminal.wait_screen(agent.answering)
        world.serving.kill()
        agent.server.release()
        agent.server.wait_for(lambda each: each.number == call.number and each.done)
        world.serving.start()
        window.reconnect()
        agent.wait_answer(call)
        assert serving is not None and is_running(serving) and agent.serving_pid() == serving.pid
        end, shown = window.end_offset, bytes(window.raw)  # the agent may draw on
        whole = TabWindow(world.serving, window.tab)
        whole.wait_screen(lambda _: whole.end_offset >= end, what="all that was shown")
        whole.close()
        # Qwen draws all anew many times a second: on a busy machine that is more than who comes late is sent.
        assert window.begin == whole.begin == 0 or whole.end_offset > RING_BYTES * 3 // 4
        begin = max(window.begin, whole.begin)
        assert whole.raw[begin - whole.begin : end - whole.begin] == shown[begin - window.begin : end - window.begin]

    def restore_all(self, world: TabWorld, *tabs: str) -> None:
        for tab in tabs:
            gone = world.wait_state(tab, "gone")
            assert gone["restorable"] and gone["pid"] is None, json.dumps(gone)
        queued = world.serving.ask("POST", "/api/tabs/restore", {})
        assert queued.body == {"queued": len(tabs)}
        for tab in tabs:
            shown = world.wait_state(tab, "running", "refused")
            assert shown["state"] == "running", shown["refusal"]

    def check_remembers(self, agent: Tui, word: str, but_not: str | None = None) -> None:
        """The model is told the earlier conversation, and no other."""
        asked = str(agent.prompt("what was it?").messages)
        assert word in asked
        assert but_not is None or but_not not in asked

    def run_another_inside(self, world: TabWorld, tab: str, session_id: str, agent: Tui) -> None:
        """The agent's own tool runs the CLI without a terminal; while it runs, the tab stays what it is."""
        pid = agent.serving_pid()
        agent.prompt_no_wait(f"RUN:{self.headless} 'SLOW600 inside'")
        inside = agent.wait_call(lambda call: call.prompt == "SLOW600 inside", TURN_SECONDS)
        world.wait_tab(tab, lambda _: len(world.serving.sessions()) == 2)
        world.wait_served(tab, session_id, pid)
        agent.server.release()
        last = agent.wait_call(
            lambda call: call.number > inside.number and call.done and bool(call.answer), TURN_SECONDS
        )
        agent.wait_idle(last)
        world.wait_served(tab, session_id, pid)

    def check_refused(self, world: TabWorld, tab: str, reason: str) -> None:
        """The answer, the tab and the log say the same; the provider's files are what they were."""
        before = tree(world.driver.home.data)
        refused = world.open_tab(tab)
        assert (refused.status, refused.reason) == (409, reason), refused
        shown = world.wait_state(tab, "refused")
        lines = (world.serving.files / "log.jsonl").read_text().splitlines()
        logged = [line for line in map(json.loads, lines) if line["event"] == "restore_refused"][-1]
        assert (logged["tab"], logged["reason"]) == (tab, reason)
        assert logged["message"] == shown["refusal"]["message"] == refused.body["error"]["message"]
        assert tree(world.driver.home.data) == before

    def place_of(self, driver: Driver, session_id: str) -> Path:
        (place,) = driver.home.data.glob(self.place.format(id=session_id))
        return place


@contextmanager
def moved(path: Path, aside: Path) -> Iterator[None]:
    path.rename(aside)
    try:
        yield
    finally:
        aside.rename(path)
