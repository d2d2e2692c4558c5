"""A session from its first prompt to its end, for every CLI: its turns, its switches, and how it ends.

Few and long, since every start of a CLI costs seconds.
"""

from __future__ import annotations

import signal

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.driver import Driver
from tests.contract.model_server import ModelServer
from tests.contract.processes import read_proc
from tests.contract.steps import find_session, kill_serving, resume, wait_dead
from tests.contract.tui import Tui, Unsupported


class LifeContract:
    """The flags say what the CLI has."""

    session_at_start = True
    """Whether a session exists before the first prompt."""
    fork_moves: bool | None = True
    """Whether /fork takes the process along; None when the CLI has no such command (that works)."""
    undo_moves: bool | None = True
    """Whether /undo makes a new session; None when the CLI has no such command (that works)."""

    def test_a_session_from_its_start_to_its_end_and_back_again(
        self, driver: Driver, corral: Corral, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            pid = agent.serving_pid()
            self.check_fresh(corral, pid)
            call = agent.prompt_no_wait("SLOW600 my number is 4711")
            corral.wait(
                lambda survey: [(r["activity"], r["pids"]) for r in survey["sessions"]] == [("busy", [pid])],
                "busy",
            )
            model_server.release()
            agent.wait_answer(call)
            session_id = find_session(driver, "SLOW600 my number is 4711")
            corral.wait_live({session_id: [pid]})
            corral.wait_ready(session_id)
            row = corral.rows()[session_id]
            assert row["durable"]
            assert row["work_dir"] == str(driver.home.work_dir)
            assert row["restore"]["kind"] == "attach" and row["restore"]["pid"] == pid
            assert [one["session_id"] for one in corral.json("pid", str(pid))["sessions"]] == [session_id]
            assert agent.quit() == 0
        row = corral.rows()[session_id]
        assert (row["state"], row["pids"], row["restore"]["kind"]) == ("idle", [], "resume")
        assert corral.ps()["unattributed"] == []

        printed = corral.run("resume", session_id, "--print")
        assert printed.returncode == 0 and session_id in printed.stdout
        with resume(driver, session_id) as agent:
            agent.wait_ready()
            answer = agent.prompt("what is my number?")
            assert "my number is 4711" in str(answer.messages)
            corral.wait_live({session_id: [agent.serving_pid()]})
            second = corral.run("resume", session_id)
            assert second.returncode == 1 and "already_live" in second.stderr
            agent.quit()
        row = corral.rows()[session_id]
        assert (row["state"], row["warnings"]) == ("idle", [])

    def test_a_process_that_goes_from_one_session_to_another_leaves_exactly_one_live(
        self, driver: Driver, corral: Corral
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("the old one says cedar")
            pid = agent.serving_pid()
            old = find_session(driver, "the old one says cedar")
            self.go_to_a_new_one_and_back(driver, corral, agent, old)
            self.fork(driver, corral, agent, old)
            self.undo(driver, corral, agent)
            assert agent.serving_pid() == pid
            agent.quit()
        assert set(corral.states().values()) == {"idle"}

    # --- the process ends; killed between turns: KillContract

    def test_killed_in_a_turn_is_orphaned_and_resumed_all_the_same(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("my colour is teal")
            agent.prompt_no_wait("SLOW600 never finished")
            session_id = find_session(driver, "my colour is teal")
            # The CLI may ask the model before it has written the turn down: what is not on disk can't be orphaned.
            corral.wait(lambda survey: survey["sessions"][0]["activity"] == "busy", "busy")
            kill_serving(agent, signal.SIGKILL)
            corral.wait_resting({session_id: "orphaned"})
        row = corral.rows()[session_id]
        assert row["state"] == "orphaned"
        assert "SLOW600 never finished" in row["unfinished"]
        assert row["restore"]["kind"] == "resume"
        with resume(driver, session_id) as agent:
            agent.wait_ready()
            assert "my colour is teal" in str(agent.prompt("what is my colour?").messages)
            agent.quit()
        assert corral.states() == {session_id: "idle"}

    def test_two_in_one_directory_are_told_apart_until_one_is_terminated_and_one_is_closed(
        self, driver: Driver, corral: Corral
    ) -> None:
        with driver.start() as one, driver.start() as two:
            one.wait_ready()
            two.wait_ready()
            one.prompt("the first says alder")
            two.prompt("the second says birch")
            first = find_session(driver, "the first says alder")
            second = find_session(driver, "the second says birch")
            assert first != second
            corral.wait_live({first: [one.serving_pid()], second: [two.serving_pid()]})
            corral.wait_ready(first)
            corral.wait_ready(second)
            serving = read_proc(two.serving_pid())
            assert serving is not None
            # Neither is live as soon as it is dead.
            kill_serving(one, signal.SIGTERM)
            assert corral.live() == {second: [serving.pid]}
            corral.wait(
                lambda survey: (
                    {row["session_id"]: row["state"] for row in survey["sessions"]} == {first: "idle", second: "live"}
                ),
                "the terminated one should be idle",
            )
            two.terminal.close()
            wait_dead(serving)
            corral.wait_resting({first: "idle", second: "idle"})

    # --- steps

    def check_fresh(self, corral: Corral, pid: int) -> None:
        """Before the first prompt."""
        if self.session_at_start:
            (only,) = corral.wait(lambda survey: len(survey["sessions"]) == 1, "one session")["sessions"]
            assert (only["state"], only["pids"]) == ("live", [pid])
            return
        survey = corral.wait(lambda survey: survey["no_session_yet"], "a process without a session")
        assert survey["sessions"] == [] and survey["unattributed"] == []
        assert [process["pid"] for process in survey["no_session_yet"]] == [pid]

    def go_to_a_new_one_and_back(self, driver: Driver, corral: Corral, agent: Tui, old: str) -> None:
        pid = agent.serving_pid()
        new = agent.new_session()
        corral.wait_live({new: [pid]})
        agent.prompt("the new one says dogwood")
        assert new == find_session(driver, "the new one says dogwood")
        corral.wait_live({new: [pid]})
        assert corral.states()[old] == "idle"
        agent.switch_to(old)
        corral.wait_live({old: [pid]})
        assert corral.states()[new] == "idle"
        told = str(agent.prompt("back in the old one").messages)
        assert "cedar" in told and "dogwood" not in told
        assert driver.session_ids_on_disk() == {old, new}

    def fork(self, driver: Driver, corral: Corral, agent: Tui, source: str) -> None:
        pid = agent.serving_pid()
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

    def undo(self, driver: Driver, corral: Corral, agent: Tui) -> None:
        pid = agent.serving_pid()
        agent.prompt("undone says gorse")
        before = find_session(driver, "undone says gorse")
        if self.undo_moves is None:
            with pytest.raises(Unsupported):
                agent.undo()
            corral.wait_live({before: [pid]})
            return
        agent.undo()
        assert "gorse" not in str(agent.prompt("after the undo").messages)
        here = find_session(driver, "after the undo")
        assert (here != before) == self.undo_moves
        corral.wait_live({here: [pid]})
        if self.undo_moves:
            assert corral.states()[before] == "idle"
