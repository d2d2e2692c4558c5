"""codex 0.166.0, for real."""

from __future__ import annotations

import os
import signal

import pytest

from tests.contract.corral_cli import Corral, tree
from tests.contract.drive_codex import Codex, find_daemon, held_by
from tests.contract.driver import Driver
from tests.contract.model_server import ModelServer
from tests.contract.processes import read_proc
from tests.contract.scenarios import SessionContract
from tests.contract.steps import find_session, resume, wait_dead
from tests.contract.tui import Tui


class TestCodex(SessionContract):
    undo_moves = None

    @pytest.fixture
    def driver(self, codex: Codex) -> Codex:
        return codex

    @pytest.fixture
    def corral(self, driver: Codex) -> Corral:
        """Its locks tell everything; it has no hooks of ours."""
        return Corral(driver.home, driver.name)

    def go_to_a_new_one_and_back(self, driver: Driver, corral: Corral, agent: Tui, old: str) -> None:
        """What it leaves stays loaded for a minute: both are live, and neither is resumed elsewhere."""
        pid = agent.serving_pid()
        new = agent.new_session()
        agent.prompt("the new one says dogwood")
        assert new == find_session(driver, "the new one says dogwood")
        corral.wait_live({old: [pid], new: [pid]})
        refused = corral.run("resume", old)
        assert refused.returncode == 1 and "already_live" in refused.stderr
        agent.switch_to(old)
        told = str(agent.prompt("back in the old one").messages)
        assert "cedar" in told and "dogwood" not in told
        assert corral.live()[old] == [pid]
        assert driver.session_ids_on_disk() == {old, new}

    def fork(self, driver: Driver, corral: Corral, agent: Tui, source: str) -> None:
        pid = agent.serving_pid()
        fork = agent.fork()
        agent.prompt("after the fork")
        assert find_session(driver, "after the fork") == fork != source
        assert corral.live()[fork] == corral.live()[source] == [pid]
        assert corral.rows()[fork]["forked_from"] == source

    def undo(self, driver: Driver, corral: Corral, agent: Tui) -> None:
        """It has no command for it."""

    def test_a_session_opened_twice_shows_both_whoever_leaves_first_and_refuses_a_third(
        self, driver: Driver, corral: Corral
    ) -> None:
        """Codex opens none twice: the second one only reads, and has no lock."""
        with driver.start() as one:
            one.wait_ready()
            one.prompt("hello maple")
            session_id = find_session(driver, "hello maple")
            first = one.serving_pid()
            with driver.start(resume=session_id) as two:
                two.terminal.wait_screen("is open in another app", 60)
                assert held_by(two.serving_pid()) == set()
                assert corral.live() == {session_id: [first]}
                two.terminal.send("q")
                two.terminal.wait_exit()
            one.quit()
        assert corral.states() == {session_id: "idle"}

    def test_a_sub_agent_is_a_thread_of_its_parent_and_not_resumed(self, driver: Codex, corral: Corral) -> None:
        driver.print_run("AGENT:look around")
        rows = corral.rows()
        (child,) = [row for row in rows.values() if row["parent_id"]]
        assert child["parent_id"] in rows and rows[child["parent_id"]]["parent_id"] is None
        before = tree(driver.home.data)
        refused = corral.run("resume", child["session_id"])
        assert refused.returncode == 1 and "restore_unsupported" in refused.stderr
        assert tree(driver.home.data) == before

    def test_archived_threads_and_forks_without_their_parent_are_refused(
        self, driver: Codex, corral: Corral, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("the source says elder")
            source = find_session(driver, "the source says elder")
            fork = agent.fork()
            agent.prompt("after the fork")
            agent.quit()
        with resume(driver, fork) as agent:
            agent.wait_ready()
            assert "elder" in str(agent.prompt("what did it say?").messages)
            agent.quit()
        assert driver.tell("archive", source) == 0
        assert (corral.rows()[source]["archived"], corral.rows()[fork]["archived"]) == (True, False)
        assert "archived" in corral.run("resume", source).stderr
        assert corral.rows()[fork]["restore"]["kind"] == "resume"
        driver.print_run("and now?", resume=fork)
        assert "elder" in str(model_server.requests[-1].messages)
        (path,) = driver.home.data.rglob(f"rollout-*{source}.jsonl")
        path.rename(driver.home.root / path.name)
        before = tree(driver.home.data)
        refused = corral.run("resume", fork)
        assert refused.returncode == 1 and "transcript_missing" in refused.stderr and source in refused.stderr
        assert tree(driver.home.data) == before

    def test_windows_of_the_daemon_serve_nothing_and_their_threads_end_with_it(
        self, driver: Codex, corral: Corral, model_server: ModelServer
    ) -> None:
        with driver.window() as one, driver.window() as two:
            one.wait_ready()
            one.prompt("the first says alder")
            two.wait_ready()
            two.prompt("the second says birch")
            first, second = (find_session(driver, f"says {tree}") for tree in ("alder", "birch"))
            windows = {one.serving_pid(), two.serving_pid()}
            daemon = find_daemon(driver.home)
            corral.wait_live({first: [daemon.pid], second: [daemon.pid]})
            survey = corral.ps()
            assert {row["pid"] for row in survey["no_session_yet"]} == windows and survey["unattributed"] == []
            refused = corral.run("kill", first, "--yes")
            assert refused.returncode == 1 and "serves other sessions too" in refused.stderr

            two.prompt_no_wait("SLOW600 goes on without a window")
            corral.wait(lambda _: corral.rows()[second]["activity"] == "busy", "busy")
            window = read_proc(two.serving_pid())
            assert window is not None
            os.kill(window.pid, signal.SIGKILL)
            wait_dead(window)
            row = corral.rows()[second]
            assert (row["state"], row["activity"], row["pids"]) == ("live", "busy", [daemon.pid])
            model_server.release()
            corral.wait_ready(second)

            os.kill(daemon.pid, signal.SIGKILL)
            wait_dead(daemon)
            assert corral.states() == {first: "idle", second: "idle"}
