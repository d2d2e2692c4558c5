"""What must hold for every CLI, written once: each provider's contract test derives from this.

corral runs as a process of its own for each look, so every switch happens while nobody watches.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.contract.corral_cli import COMMAND, Corral, tree
from tests.contract.driver import Driver, Tui, Unsupported
from tests.contract.model_server import ModelServer
from tests.contract.processes import Proc, is_running, read_proc
from tests.contract.terminal import Terminal


class SessionContract:
    """Derive, and provide a `driver` fixture. The flags say what the CLI has."""

    session_at_start = True
    """Whether a session exists before the first prompt."""
    fork_moves: bool | None = True
    """Whether /fork takes the process along; None when the CLI has no such command (that works)."""
    undo_moves: bool | None = True
    """Whether /undo makes a new session; None when the CLI has no such command (that works)."""
    needs_hooks = True
    """Whether a process is unattributed without our hooks."""

    @pytest.fixture
    def corral(self, driver: Driver) -> Corral:
        corral = Corral(driver.home, driver.name)
        corral.install_hooks()
        return corral

    @pytest.fixture
    def bare(self, driver: Driver) -> Corral:
        """corral in a home without our hooks."""
        return Corral(driver.home, driver.name)

    # --- the life of one session

    def test_fresh_start_then_prompt_then_quit(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            pid = agent.serving_pid()
            if self.session_at_start:
                (only,) = corral.wait(lambda survey: len(survey["sessions"]) == 1, "one session")["sessions"]
                assert (only["state"], only["pids"]) == ("live", [pid])
            else:
                survey = corral.ps()
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
            call = agent.prompt_no_wait("SLOW60 think about it")
            pid = agent.serving_pid()
            corral.wait(
                lambda survey: [(r["activity"], r["pids"]) for r in survey["sessions"]] == [("busy", [pid])],
                "busy",
            )
            model_server.release()
            agent.wait_answer(call)
            corral.wait(lambda survey: [r["activity"] for r in survey["sessions"]] == ["ready"], "ready")
            agent.quit()

    def test_two_sessions_in_one_directory_at_once_are_told_apart(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as one, driver.start() as two:
            one.wait_ready()
            two.wait_ready()
            one.prompt("the first says alder")
            two.prompt("the second says birch")
            first = find_session(driver, "the first says alder")
            second = find_session(driver, "the second says birch")
            assert first != second
            corral.wait_live({first: [one.serving_pid()], second: [two.serving_pid()]})
            one.quit()
            corral.wait_live({second: [two.serving_pid()]})
            two.quit()
        assert corral.states() == {first: "idle", second: "idle"}

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
            self.kill(agent, signal.SIGKILL)
            corral.wait_resting({session_id: "idle"})

    def test_killed_in_a_turn_is_orphaned(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("hello iris")
            agent.prompt_no_wait("SLOW60 never finished")
            session_id = find_session(driver, "hello iris")
            # The CLI may ask the model before it has written the turn down: what is not on disk can't be orphaned.
            corral.wait(lambda survey: survey["sessions"][0]["activity"] == "busy", "busy")
            self.kill(agent, signal.SIGKILL)
            corral.wait_resting({session_id: "orphaned"})
        row = corral.rows()[session_id]
        assert row["state"] == "orphaned"
        assert "SLOW60 never finished" in row["unfinished"]
        assert row["restore"]["kind"] == "resume"

    def test_terminated_is_not_live_as_soon_as_it_is_dead(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("hello juniper")
            session_id = find_session(driver, "hello juniper")
            corral.wait_ready(session_id)
            self.kill(agent, signal.SIGTERM)
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

    # --- more than one process

    def test_a_session_opened_twice_shows_both_and_refuses_a_third(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as one:
            one.wait_ready()
            one.prompt("hello maple")
            session_id = find_session(driver, "hello maple")
            with driver.start(resume=session_id) as two:
                two.wait_ready()
                pids = [one.serving_pid(), two.serving_pid()]
                corral.wait_live({session_id: pids})
                refused = corral.run("resume", session_id)
                assert refused.returncode == 1 and "already_live" in refused.stderr
                two.quit()
            corral.wait_live({session_id: pids[:1]})
            one.quit()
        assert corral.states() == {session_id: "idle"}

    def test_the_first_opener_may_leave_first(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as one:
            one.wait_ready()
            one.prompt("hello nettle")
            session_id = find_session(driver, "hello nettle")
            with driver.start(resume=session_id) as two:
                two.wait_ready()
                corral.wait_live({session_id: [one.serving_pid(), two.serving_pid()]})
                one.quit()
                corral.wait_live({session_id: [two.serving_pid()]})
                two.quit()

    def test_a_print_run_beside_it_takes_nothing_over(
        self, driver: Driver, corral: Corral, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("hello oak")
            session_id = find_session(driver, "hello oak")
            pid = agent.serving_pid()
            beside = PrintRun(driver, "SLOW60 beside it")
            try:
                model_server.wait_for(lambda call: call.prompt == "SLOW60 beside it")
                survey = corral.wait(lambda survey: len(survey["sessions"]) == 2, "two sessions")
                mine = {row["session_id"]: row["pids"] for row in survey["sessions"]}
                assert mine[session_id] == [pid]
            finally:
                model_server.release()
                beside.wait()
            assert corral.live() == {session_id: [pid]}
            agent.quit()
        assert set(corral.states().values()) == {"idle"}

    # --- back in

    def test_resume_after_quit_continues_the_conversation(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("my number is 4711")
            session_id = find_session(driver, "my number is 4711")
            agent.quit()
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

    def test_an_orphaned_session_is_resumed_too(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("my colour is teal")
            session_id = find_session(driver, "my colour is teal")
            agent.prompt_no_wait("SLOW60 lost")
            corral.wait(lambda survey: survey["sessions"][0]["activity"] == "busy", "busy")
            self.kill(agent, signal.SIGKILL)
        with resume(driver, session_id) as agent:
            agent.wait_ready()
            assert "my colour is teal" in str(agent.prompt("what is my colour?").messages)
            agent.quit()
        assert corral.states() == {session_id: "idle"}

    # --- refusals: the reason is said, and nothing on disk changes

    @pytest.mark.parametrize(
        ("name", "code", "said"),
        [
            ("../x", 1, "identity_invalid"),
            ("-rf", 2, ""),
            ("/abs/path", 1, "identity_invalid"),
            ("00000000-aaaa-4bbb-8ccc-dddddddddddd", 4, "no session is called"),
            ("$(id)", 1, "identity_invalid"),
        ],
    )
    def test_a_name_that_is_nobodys_is_refused(
        self, driver: Driver, bare: Corral, name: str, code: int, said: str
    ) -> None:
        before = tree(driver.home.data)
        done = bare.run("resume", name)
        assert done.returncode == code and said in done.stderr
        assert tree(driver.home.data) == before

    def test_a_missing_directory_is_refused(self, driver: Driver, corral: Corral) -> None:
        place = driver.home.another_work_dir("gone")
        driver.print_run("hello poplar", work_dir=place)
        session_id = find_session(driver, "hello poplar")
        before = tree(driver.home.data)
        moved = place.rename(place.with_name("moved"))
        done = corral.run("resume", session_id)
        assert done.returncode == 1 and "work_dir_missing" in done.stderr and str(place) in done.stderr
        assert tree(driver.home.data) == before
        moved.rename(place)
        assert corral.json("show", session_id)["session"]["restore"]["kind"] == "resume"

    def test_resume_from_another_directory_goes_to_its_own(self, driver: Driver, corral: Corral) -> None:
        place = driver.home.another_work_dir("there")
        driver.print_run("my tree is a rowan", work_dir=place)
        session_id = find_session(driver, "my tree is a rowan")
        ids = driver.session_ids_on_disk()
        with resume(driver, session_id, cwd=driver.home.root) as agent:
            agent.wait_ready()
            assert "my tree is a rowan" in str(agent.prompt("which tree?").messages)
            agent.quit()
        assert driver.session_ids_on_disk() == ids

    def test_a_missing_program_is_refused(self, driver: Driver, corral: Corral) -> None:
        driver.print_run("hello sorrel")
        session_id = find_session(driver, "hello sorrel")
        before = tree(driver.home.data)
        env = {**driver.home.env, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [*COMMAND, "resume", session_id], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1 and "provider_missing" in done.stderr
        assert tree(driver.home.data) == before

    def test_several_resumes_of_one_session_start_it_once(self, driver: Driver, corral: Corral) -> None:
        driver.print_run("hello tansy")
        session_id = find_session(driver, "hello tansy")
        terminals = [corral_terminal(driver, "resume", session_id) for _ in range(4)]
        try:
            started = [terminal for terminal in terminals if not was_refused(terminal)]
            assert len(started) == 1
            agent = driver.on(started[0])
            agent.wait_ready()
            corral.wait_live({session_id: [agent.serving_pid()]})
        finally:
            for terminal in terminals:
                terminal.end()

    # --- without hooks

    def test_without_hooks_nothing_is_guessed(self, driver: Driver, bare: Corral) -> None:
        driver.print_run("an older one says thyme")
        older = find_session(driver, "an older one says thyme")
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("the open one says willow")
            open_one = find_session(driver, "the open one says willow")
            pid = agent.serving_pid()
            survey = bare.ps()
            if not self.needs_hooks:
                assert bare.live() == {open_one: [pid]}
                assert survey["unattributed"] == []
                return
            assert bare.live() == {}
            assert [process["pid"] for process in survey["unattributed"]] == [pid]
            assert survey["unattributed"][0]["advice"] == f"corral hooks install {driver.name}"
            for row in survey["sessions"]:
                assert (row["state"], row["maybe_pids"]) == ("unknown", [pid])
            # The agent that runs writes its own files meanwhile: the session in question must not change.
            before = {name: content for name, content in tree(driver.home.data).items() if older in name}
            refused = bare.run("resume", older)
            assert refused.returncode == 1 and "maybe_open" in refused.stderr and str(pid) in refused.stderr
            after = {name: content for name, content in tree(driver.home.data).items() if older in name}
            assert before and after == before
            assert bare.run("resume", older, "--anyway", "--print").returncode == 0
            agent.quit()
        assert set(bare.states().values()) == {"idle"}

    # --- helpers

    def kill(self, agent: Tui, number: signal.Signals) -> None:
        """Sends a signal to the process that serves, and waits until it is dead."""
        kill_serving(agent, number)


class PrintRun:
    """A run without a terminal, beside whatever else happens."""

    def __init__(self, driver: Driver, text: str) -> None:
        import threading

        self._thread = threading.Thread(target=driver.print_run, args=(text,))
        self._thread.start()

    def wait(self) -> None:
        self._thread.join(90)
        assert not self._thread.is_alive()


def corral_terminal(driver: Driver, *words: str, cwd: Path | None = None) -> Terminal:
    return Terminal([*COMMAND, *words], cwd=cwd or driver.home.work_dir, env=driver.home.env)


def resume(driver: Driver, session_id: str, *options: str, cwd: Path | None = None) -> Tui:
    """The agent that `corral resume` becomes."""
    return driver.on(corral_terminal(driver, "resume", session_id, *options, cwd=cwd))


def was_refused(terminal: Terminal, timeout: float = 60) -> bool:
    """Waits for what `corral resume` came to: a refusal, or anything that an agent shows."""
    shown = terminal.wait_screen(
        lambda screen: bool(screen.strip()) and "waiting:" not in screen, timeout, what="a refusal or an agent"
    )
    return "is not resumed" in shown


def wait_dead(proc: Proc, timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while is_running(proc):
        assert time.monotonic() < deadline, f"pid {proc.pid} still runs"
        time.sleep(0.01)


def kill_serving(agent: Tui, number: signal.Signals) -> None:
    """Sends a signal to the process that holds the conversation, and waits until it is dead."""
    serving = read_proc(agent.serving_pid())
    assert serving is not None
    os.kill(serving.pid, number)
    wait_dead(serving)


def count_live(survey: Any) -> int:
    return sum(row["state"] == "live" for row in survey["sessions"])


def find_session(driver: Driver, text: str) -> str:
    """The one session in whose files the CLI wrote this text: the test's own truth, from the provider's disk."""
    needle = text.encode()
    found = {
        session_id
        for session_id in driver.session_ids_on_disk()
        for path in driver.home.data.rglob("*.jsonl")
        if session_id in str(path) and "index" not in path.name and needle in path.read_bytes()
    }
    assert len(found) == 1, f"{text!r} is in {found}"
    return found.pop()
