"""When evidence breaks, for every CLI: hooks that stop, processes that nobody sees into, copies, and what never stops.

Never live and never idle wrongly; and never mute, while nothing is wrong.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.corral_cli import Corral, tree
from tests.contract.driver import Driver
from tests.contract.steps import find_session, kill_serving
from tests.contract.terminal import Terminal
from tests.contract.tui import Tui

MANY = 10


class EvidenceContract:
    """What corral says when the word of a CLI can't be relied on any more. The flags say what the CLI has."""

    tells_by_itself = False
    """Whether the CLI's own files still tell which session a process has when our hooks do not."""
    tells_until_it_switches = False
    """Whether they do as long as the process has had one session only."""

    @pytest.fixture
    def corral(self, driver: Driver) -> Corral:
        corral = Corral(driver.home, driver.name)
        corral.install_hooks()
        return corral

    @pytest.fixture
    def bare(self, driver: Driver) -> Corral:
        """corral in a home without our hooks."""
        return Corral(driver.home, driver.name)

    # --- reporting stops while the agent runs

    def test_hooks_removed_while_it_runs(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            old, pid = self._begin(driver, corral, agent, "the old one says cedar")
            assert corral.run("hooks", "uninstall", driver.name).returncode == 0
            new = self._move_on(driver, agent, "the new one says dogwood")
            self._require_truth(corral, old, new, pid)
            # Back again: that heals nothing by itself.
            corral.install_hooks()
            self._require_truth(corral, old, new, pid)
            agent.quit()
        assert set(corral.states().values()) == {"idle"}

    def test_the_hook_program_deleted_and_back_again(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:
            old, pid = self._begin(driver, corral, agent, "the old one says elder")
            (program,) = driver.home.root.rglob("corral-hook.py")
            kept = program.with_name("kept")
            program.rename(kept)
            new = self._move_on(driver, agent, "the new one says fennel")
            self._require_truth(corral, old, new, pid)
            kept.rename(program)
            self._require_truth(corral, old, new, pid)
            # Its next word heals.
            third = self._move_on(driver, agent, "the third one says ginger")
            corral.wait_live({third: [pid]})
            agent.quit()
        assert set(corral.states().values()) == {"idle"}

    # --- an agent that says nothing

    def test_a_silent_agent_casts_doubt_on_what_it_can_reach_and_nothing_is_guessed(
        self, driver: Driver, bare: Corral
    ) -> None:
        there = driver.home.another_work_dir("there")
        driver.print_run("far away says hazel", work_dir=there)
        driver.print_run("here says iris")
        far, here = find_session(driver, "far away says hazel"), find_session(driver, "here says iris")
        tells = self.tells_by_itself or self.tells_until_it_switches
        with driver.start() as agent:
            agent.wait_ready()
            pid = agent.serving_pid()
            states = bare.states()
            assert (states[far], states[here]) == ("idle", "idle" if tells else "unknown")
            if not tells:
                self._require_refused(bare, here)
            assert bare.json("resume", far, "--print")["restore"]["kind"] == "resume"
            agent.prompt("the open one says willow")
            open_one = find_session(driver, "the open one says willow")
            survey = bare.ps()
            if tells:
                assert bare.live() == {open_one: [pid]}
                assert survey["unattributed"] == []
            else:
                assert bare.live() == {}
                assert [process["pid"] for process in survey["unattributed"]] == [pid]
                assert survey["unattributed"][0]["advice"] == f"corral hooks install {driver.name}"
                said = {row["session_id"]: (row["state"], row["maybe_pids"]) for row in survey["sessions"]}
                assert said == {far: ("idle", []), here: ("unknown", [pid]), open_one: ("unknown", [pid])}
                # The agent that runs writes its own files meanwhile: the session in question must not change.
                before = {name: content for name, content in tree(driver.home.data).items() if here in name}
                assert str(pid) in self._require_refused(bare, here)
                after = {name: content for name, content in tree(driver.home.data).items() if here in name}
                assert before and after == before
                assert bare.run("resume", here, "--anyway", "--print").returncode == 0
            agent.quit()
        assert set(bare.states().values()) == {"idle"}

    def test_a_resume_waits_for_an_agent_that_has_just_started(self, driver: Driver, corral: Corral) -> None:
        with driver.start() as agent:  # it may ask first whether this directory is trusted
            agent.wait_ready()
            agent.prompt("hello juniper")
            session_id = find_session(driver, "hello juniper")
            agent.quit()
        with driver.start(resume=session_id) as agent:
            time.sleep(0.8)
            second = corral.run("resume", session_id, timeout=120)
            assert second.returncode == 1 and "already_live" in second.stderr, second.stderr
            agent.wait_ready()
            corral.wait_live({session_id: [agent.serving_pid()]})
            agent.quit()
        assert corral.states() == {session_id: "idle"}

    # --- the same home by another name

    @pytest.mark.parametrize("is_visible", [False, True], ids=["hook invisible", "hook visible"])
    def test_an_agent_in_a_container_that_has_the_home_mounted(
        self, driver: Driver, corral: Corral, is_visible: bool
    ) -> None:
        driver.print_run("hello in a container")
        session_id = find_session(driver, "hello in a container")
        with self._contained(driver, session_id, is_visible) as agent:
            agent.wait_ready()
            agent.prompt("inside says kelp")
            rows = corral.ps()["sessions"]
            assert [row["session_id"] for row in rows] == [session_id], rows
            expected = {"live"} if is_visible else {"unknown", "live" if self.tells_by_itself else "unknown"}
            assert rows[0]["state"] in expected, rows
            assert rows[0]["state"] != "live" or rows[0]["pids"] == [agent.serving_pid()]
            refused = corral.run("resume", session_id)
            assert refused.returncode == 1, refused.stdout
            agent.quit()

    # --- never mute

    def test_many_agents_stay_live_while_nothing_is_wrong_and_a_copy_of_their_home_has_none(
        self, driver: Driver, corral: Corral
    ) -> None:
        with ExitStack() as stack:
            agents: list[Tui] = []
            expected: dict[str, list[int]] = {}
            for number in range(MANY):
                # One after the other: all at once, they would keep every other test of the machine waiting.
                agents.append(agent := stack.enter_context(driver.start()))
                agent.wait_ready()
                agent.prompt(f"number {number} says moss{number}")
                expected[find_session(driver, f"number {number} says moss{number}")] = [agent.serving_pid()]
            corral.wait_live(expected, 120)
            # corral is upgraded: the program that is there is an older one, and is replaced.
            (program,) = driver.home.root.rglob("corral-hook.py")
            self._age(program, corral)
            assert corral.live() == expected
            corral.install_hooks()
            assert corral.live() == expected
            self._rewrite_config(driver, agents[2])
            corral.wait_live(expected)
            first, second, *_ = expected
            agents[0].quit()
            expected.pop(first)
            assert corral.live() == expected
            kill_serving(agents[1], signal.SIGKILL)
            expected.pop(second)
            assert corral.live() == expected
            subprocess.run(["tar", "-cf", "/dev/null", driver.home.root], check=True, capture_output=True)
            subprocess.run(["cp", "-a", driver.home.data, driver.home.root / "backup"], check=True)
            assert corral.live() == expected
            assert self._read_copy(driver) == dict.fromkeys([first, second, *expected], "idle")
            assert corral.live() == expected

    # --- steps

    def _read_copy(self, driver: Driver) -> dict[str, str]:
        """The states of all sessions in a copy of the whole home, with the records of who runs."""
        copy = driver.home.root.with_name(driver.home.root.name + "-copy")
        try:
            subprocess.run(["cp", "-a", driver.home.root, copy], check=True)
            copied = Corral(replace(driver.home, root=copy, env={**driver.home.env, "HOME": str(copy)}), driver.name)
            return copied.states()
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _require_refused(self, corral: Corral, session_id: str) -> str:
        """What is said when it may be open somewhere."""
        refused = corral.run("resume", session_id)
        assert refused.returncode == 1 and "maybe_open" in refused.stderr, refused.stderr
        return refused.stderr

    def _begin(self, driver: Driver, corral: Corral, agent: Tui, text: str) -> tuple[str, int]:
        agent.wait_ready()
        agent.prompt(text)
        session_id = find_session(driver, text)
        pid = agent.serving_pid()
        corral.wait_live({session_id: [pid]})
        return session_id, pid

    def _move_on(self, driver: Driver, agent: Tui, text: str) -> str:
        agent.new_session()
        agent.prompt(text)
        return find_session(driver, text)

    def _require_truth(self, corral: Corral, old: str, new: str, pid: int) -> None:
        """The process has the new one: neither is told wrongly, and neither is opened a second time."""
        rows = corral.rows()
        if self.tells_by_itself:
            assert (rows[new]["state"], rows[new]["pids"]) == ("live", [pid]), rows[new]
            assert rows[old]["state"] == "idle", rows[old]
            return
        assert (rows[new]["state"], rows[old]["state"]) == ("unknown", "unknown"), rows
        assert pid in rows[new]["maybe_pids"]
        for one in (new, old):
            self._require_refused(corral, one)

    @contextmanager
    def _contained(self, driver: Driver, session_id: str, is_visible: bool) -> Iterator[Tui]:
        """An agent in PID and mount namespaces of its own, where the home is mounted under another HOME."""
        other = driver.home.root / "container"
        inside = other / driver.home.data.name
        inside.mkdir(parents=True)
        hidden = [] if is_visible else [f"mount -t tmpfs none '{driver.home.root}/.local'"]
        if not is_visible:
            (driver.home.root / ".local").mkdir(exist_ok=True)
        steps = [*hidden, f"mount --bind '{driver.home.data}' '{inside}'", 'exec "$@"']
        words = [driver.command, *driver.session_args(None, session_id)]
        argv = [
            "unshare",
            "-m",
            "-p",
            "-f",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-ec",
            "; ".join(steps),
            "sh",
            *words,
        ]
        env = {**driver.home.env, "HOME": str(other)}
        terminal = Terminal(argv, cwd=driver.home.work_dir, env=env)
        with driver.on(terminal) as agent:
            yield agent

    def _age(self, program: Path, corral: Corral) -> None:
        """As an older corral left it: other bytes, put in place whole, and on record as that version's own."""
        import msgspec

        from corral.hooks.command import ProgramRecord

        (record,) = corral.home.root.rglob("hooks/program.json")
        older = program.with_name("older")
        older.write_bytes(program.read_bytes().replace(b"# ", b"#  ", 1))
        older.rename(program)
        status = os.stat(program)
        known = msgspec.json.decode(record.read_bytes(), type=ProgramRecord)
        known = msgspec.structs.replace(known, device=status.st_dev, inode=status.st_ino, changed_ns=status.st_ctime_ns)
        record.write_bytes(msgspec.json.encode(known))

    def _rewrite_config(self, driver: Driver, agent: Tui) -> None:
        """What a CLI may do by itself, at any command: the file is written again, with our entries in it."""
        for config in (driver.home.data / "config.toml", driver.home.data / "settings.json"):
            if config.exists():
                config.write_bytes(config.read_bytes() + b"\n")


class DirectoryReachContract:
    """What a CLI refuses to open from another directory: only what was tried here is declared as its reach."""

    def test_the_sessions_of_other_directories_can_t_be_opened(self, driver: Driver) -> None:
        there = driver.home.another_work_dir("there")
        driver.print_run("far away says rue", work_dir=there)
        far = find_session(driver, "far away says rue")
        before = self._files_of(driver, there, far)
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("here says sage")
            agent.type_line("/sessions")
            agent.terminal.wait_screen("Ctrl+A")
            agent.press_until("\x01", lambda screen: "work/there" in screen, "sessions of all directories")
            agent.pick(far.removeprefix("session_")[:8])
            agent.terminal.wait_screen(lambda screen: "❯" not in screen, what="the list closed")
            agent.prompt("still here says tansy")
            assert find_session(driver, "still here says tansy") == find_session(driver, "here says sage")
            agent.quit()
        with driver.start(resume=far) as agent:
            if agent.terminal.wait_screen(lambda _: self._is_settled(agent), 90) and agent.terminal.exit_code is None:
                agent.prompt("by its id says thyme")
                agent.quit()
        assert self._files_of(driver, there, far) == before

    def test_a_directory_that_is_renamed_under_a_silent_agent_stays_within_its_reach(
        self, driver: Driver, bare: Corral
    ) -> None:
        place = driver.home.another_work_dir("before")
        with driver.start(place) as agent:
            agent.wait_ready()
            agent.prompt("the first says vervain")
            first = find_session(driver, "the first says vervain")
            agent.new_session()
            agent.prompt("the second says woad")
            second = find_session(driver, "the second says woad")
            moved = place.rename(place.with_name("after"))
            place.mkdir()  # another one of the old name
            states = bare.states()
            assert (states[first], states[second]) == ("unknown", "unknown")
            place.rmdir()
            moved.rename(place)
            agent.quit()
        assert set(bare.states().values()) == {"idle"}

    @staticmethod
    def _is_settled(agent: Tui) -> bool:
        shown = agent.terminal.screen()
        return agent.terminal.exit_code is not None or ("context:" in shown and agent.input_text(shown) == "")

    @staticmethod
    def _files_of(driver: Driver, work_dir: Path, session_id: str) -> dict[str, bytes | str]:
        """What the CLI keeps of a session, in the place that belongs to that directory."""
        found = [
            path for path in (driver.home.data / "sessions").glob(f"*/{session_id}") if driver.owns(path, work_dir)
        ]
        assert len(found) == 1, found
        return tree(found[0], ("runtime.json",))
