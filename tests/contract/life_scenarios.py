"""A session from its first prompt to its end, for every CLI: its turns, its switches, and how it ends."""

from __future__ import annotations

import signal

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.driver import Driver
from tests.contract.model_server import ModelServer
from tests.contract.processes import read_proc
from tests.contract.steps import find_session, kill_serving, wait_dead
from tests.contract.tui import Unsupported


class LifeContract:
    """One process at a time. The flags say what the CLI has."""

    session_at_start = True
    """Whether a session exists before the first prompt."""
    fork_moves: bool | None = True
    """Whether /fork takes the process along; None when the CLI has no such command (that works)."""
    undo_moves: bool | None = True
    """Whether /undo makes a new session; None when the CLI has no such command (that works)."""

    # --- the life of one session

    def test_fresh_start_then_prompt_then_quit(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            pid = agent.serving_pid()
            if self.session_at_start:
                (only,) = corral.wait(lambda survey: len(survey["sessions"]) == 1, "one session")["sessions"]
                assert (only["state"], only["pids"]) == ("live", [pid])
            else:
                survey = corral.wait(lambda survey: survey["no_session_yet"], "a process without a session")
                assert survey["sessions"] == [] and survey["unattributed"] == []
                assert [process["pid"] for process in survey["no_session_yet"]] == [pid]
            agent.prompt("remember the word heron")
            session_id = find_session(driver, "remember the word heron")
            corral.wait_live({session_id: [pid]})
            corral.wait_ready(session_id)
            row = corral.rows()[session_id]
            assert row["durable"]
            assert row["work_dir"] == str(driver.home.work_dir)
            assert row["restore"]["kind"] == "attach" and row["restore"]["pid"] == pid
            assert [one["session_id"] for one in corral.json("pid", str(pid))["sessions"]] == [session_id]
            agent.quit()
        row = corral.rows()[session_id]
        assert (row["state"], row["pids"], row["restore"]["kind"]) == ("idle", [], "resume")
        assert corral.ps()["unattributed"] == []

    def test_a_turn_shows_as_busy_and_then_ready(
        self, driver: Driver, corral: Corral, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            call = agent.prompt_no_wait("SLOW600 think about it")
            pid = agent.serving_pid()
            corral.wait(
                lambda survey: [(r["activity"], r["pids"]) for r in survey["sessions"]] == [("busy", [pid])],
                "busy",
            )
            model_server.release()
            agent.wait_answer(call)
            corral.wait(lambda survey: [r["activity"] for r in survey["sessions"]] == ["ready"], "ready")
            agent.quit()

    # --- the session changes while the process stays

    def test_new_and_back_again_leave_exactly_one_live(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("the old one says cedar")
            pid = agent.serving_pid()
            old = find_session(driver, "the old one says cedar")
            new = agent.new_session()
            corral.wait_live({new: [pid]})
            agent.prompt("the new one says dogwood")
            assert new == find_session(driver, "the new one says dogwood")
            corral.wait_live({new: [pid]})
            assert corral.states()[old] == "idle"
            agent.switch_to(old)
            corral.wait_live({old: [pid]})
            assert corral.states()[new] == "idle"
            agent.quit()
        assert set(corral.states().values()) == {"idle"}

    def test_a_fork_leaves_exactly_one_live(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("the source says elder")
            pid = agent.serving_pid()
            source = find_session(driver, "the source says elder")
            if self.fork_moves is None:
                with pytest.raises(Unsupported):
                    agent.fork()
                corral.wait_live({source: [pid]})
                return
            fork = agent.fork()
            assert fork != source
            here, left = (fork, source) if self.fork_moves else (source, fork)
            corral.wait_live({here: [pid]})
            agent.prompt("after the fork")
            assert find_session(driver, "after the fork") == here
            corral.wait_live({here: [pid]})
            assert corral.states()[left] == "idle"
            agent.quit()

    def test_an_undo_leaves_exactly_one_live(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("kept says fir")
            agent.prompt("undone says gorse")
            pid = agent.serving_pid()
            before = find_session(driver, "undone says gorse")
            if self.undo_moves is None:
                with pytest.raises(Unsupported):
                    agent.undo()
                corral.wait_live({before: [pid]})
                return
            agent.undo()
            agent.prompt("after the undo")
            here = find_session(driver, "after the undo")
            assert (here != before) == self.undo_moves
            corral.wait_live({here: [pid]})
            if self.undo_moves:
                assert corral.states()[before] == "idle"
            agent.quit()

    # --- the process ends

    def test_killed_between_turns_is_idle(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("hello hazel")
            session_id = find_session(driver, "hello hazel")
            corral.wait_ready(session_id)
            kill_serving(agent, signal.SIGKILL)
            corral.wait_resting({session_id: "idle"})

    def test_killed_in_a_turn_is_orphaned(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("hello iris")
            agent.prompt_no_wait("SLOW600 never finished")
            session_id = find_session(driver, "hello iris")
            # The CLI may ask the model before it has written the turn down: what is not on disk can't be orphaned.
            corral.wait(lambda survey: survey["sessions"][0]["activity"] == "busy", "busy")
            kill_serving(agent, signal.SIGKILL)
            corral.wait_resting({session_id: "orphaned"})
        row = corral.rows()[session_id]
        assert row["state"] == "orphaned"
        assert "SLOW600 never finished" in row["unfinished"]
        assert row["restore"]["kind"] == "resume"

    def test_terminated_is_not_live_as_soon_as_it_is_dead(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("hello juniper")
            session_id = find_session(driver, "hello juniper")
            corral.wait_ready(session_id)
            kill_serving(agent, signal.SIGTERM)
            corral.wait_resting({session_id: "idle"})

    def test_a_closed_terminal_is_not_live_as_soon_as_it_is_dead(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("hello larch")
            session_id = find_session(driver, "hello larch")
            corral.wait_ready(session_id)
            serving = read_proc(agent.serving_pid())
            agent.terminal.close()
            assert serving is not None
            wait_dead(serving)
            corral.wait_resting({session_id: "idle"})
