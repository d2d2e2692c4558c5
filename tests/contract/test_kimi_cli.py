"""kimi-cli 1.51.0, for real: the common contract, and the ways in which its own registry loses history."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.contract.agents import write_tombstone
from tests.contract.corral_cli import Corral, tree
from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.driver import PRINT_SECONDS
from tests.contract.scenarios import SessionContract
from tests.contract.steps import corral_terminal, find_session, kill_serving, resume
from tests.contract.tab_scenarios import moved


class TestKimiCli(SessionContract):
    @pytest.fixture
    def driver(self, kimi_cli: KimiCli) -> KimiCli:
        return kimi_cli

    def test_a_directory_that_kimi_json_lost_is_refused_and_the_remedy_works(
        self, driver: KimiCli, corral: Corral
    ) -> None:
        driver.print_run("my bird is a wren", session_id="a-lost-directory")
        self.forget_directory(driver, driver.home.work_dir)
        said = self.refuse(driver, corral, "a-lost-directory")
        assert "work_dir_unregistered" in said
        # The remedy as printed: start kimi once in that directory, leave, resume.
        assert f"kimi -w {driver.home.work_dir}" in said and "/quit" in said
        with driver.start(args=("-w", str(driver.home.work_dir))) as agent:
            agent.wait_ready()
            agent.quit()
        with resume(driver, "a-lost-directory") as agent:
            agent.wait_ready()
            assert "my bird is a wren" in str(agent.prompt("which bird?").messages)
            agent.quit()
        assert corral.rows()["a-lost-directory"]["warnings"] == []

    def test_a_broken_kimi_json_a_missing_context_and_a_tombstone_are_refused(
        self, driver: KimiCli, corral: Corral
    ) -> None:
        driver.print_run("hello yarrow", session_id="damaged")
        registry, aside = driver.home.data / "kimi.json", driver.home.root / "aside"
        for content in ("{not json", "", '{"work_dirs": 3}'):
            with moved(registry, aside):
                registry.write_text(content)
                assert "work_dir_unregistered" in self.refuse(driver, corral, "damaged"), content
        with moved(self.session_dir(driver, "damaged") / "context.jsonl", aside):
            assert "transcript_missing" in self.refuse(driver, corral, "damaged")
        with moved(driver.home.root / "bin" / "kimi", aside):
            write_tombstone(driver.home.root / "bin")
            said = self.refuse(driver, corral, "damaged")
            assert "provider_missing" in said or "provider_unsupported" in said
        # All is there again: the refusals were about that.
        assert corral.run("resume", "damaged", "--print").returncode == 0

    def test_the_same_id_in_two_directories_is_named_by_its_bucket_and_resumed_there_and_nowhere_else(
        self, driver: KimiCli, corral: Corral
    ) -> None:
        there = driver.home.another_work_dir("there")
        driver.print_run("here I say moss", session_id="twice")
        driver.print_run("there I say lichen", work_dir=there, session_id="twice")
        done = corral.run("resume", "twice")
        assert done.returncode == 3
        assert bucket(there) in done.stderr and bucket(driver.home.work_dir) in done.stderr
        name = f"kimi-cli:{bucket(there)}/twice"
        assert corral.json("show", name)["session"]["work_dir"] == str(there)
        with resume(driver, name, cwd=driver.home.work_dir) as agent:
            agent.wait_ready()
            survey = corral.wait(lambda survey: count_live(survey) == 1, "one live")
            live = {row["scope"]: row["state"] for row in survey["sessions"]}
            assert live == {bucket(there): "live", bucket(driver.home.work_dir): "idle"}
            told = str(agent.prompt("what did I say?").messages)
            assert "lichen" in told and "moss" not in told
            agent.quit()
        places = {path.parent.name for path in (driver.home.data / "sessions").glob("*/*")}
        assert places == {bucket(there), bucket(driver.home.work_dir)}
        assert find_said(driver, "what did I say?") == {bucket(there)}

    def test_a_relative_work_dir_through_a_link_is_followed(self, driver: KimiCli, corral: Corral) -> None:
        link = driver.home.root / "link"
        link.symlink_to(driver.home.work_dir)
        with driver.start(driver.home.root, args=("-w", "link")) as agent:
            agent.wait_ready()
            agent.prompt("hello through a link")
            session_id = find_session(driver, "hello through a link")
            corral.wait_live({session_id: [agent.serving_pid()]})
            assert corral.rows()[session_id]["scope"] == bucket(link)
            agent.quit()

    def test_eight_parallel_starts_of_kimi_itself_end_in_a_refusal_and_parallel_resumes_in_no_loss(
        self, driver: KimiCli, corral: Corral
    ) -> None:
        names = [f"race-{number}" for number in range(8)]
        places = {name: driver.home.another_work_dir(name) for name in names}
        runs = [
            threading.Thread(
                target=driver.print_run,
                args=(f"I am {name}",),
                kwargs={"work_dir": places[name], "session_id": name},
            )
            for name in names
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join(PRINT_SECONDS + 60)
        listed = {entry["path"] for entry in json.loads((driver.home.data / "kimi.json").read_text())["work_dirs"]}
        for name, place in places.items():
            plan = corral.json("resume", f"kimi-cli:{bucket(place)}/{name}", "--print")["restore"]
            expected = "resume" if str(place) in listed else "refused"
            assert plan["kind"] == expected
            if expected == "refused":
                assert plan["reason"] == "work_dir_unregistered"

        self.remember_directories(driver, list(places.values()))
        kept = {name: (self.session_dir(driver, name) / "context.jsonl").read_bytes() for name in names}
        assert all(f"I am {name}".encode() in kept[name] for name in names)
        terminals = [corral_terminal(driver, "resume", name) for name in names]
        try:
            corral.wait(lambda survey: count_live(survey) == 8, "eight live", 180)
            for name in names:
                assert (self.session_dir(driver, name) / "context.jsonl").read_bytes().startswith(kept[name])
            assert len({row["pid"] for row in corral.rows().values()}) == 8
        finally:
            for terminal in terminals:
                terminal.end()
        for name in names:
            assert (self.session_dir(driver, name) / "context.jsonl").read_bytes().startswith(kept[name])

    def test_history_lost_all_the_same_is_told_with_the_copy(self, driver: KimiCli, corral: Corral) -> None:
        driver.print_run("my stone is jasper", session_id="lost-all-the-same")
        context = self.session_dir(driver, "lost-all-the-same") / "context.jsonl"
        kept = context.read_bytes()
        # What the user's own kimi can do at any time: the entry goes between our check and its start.
        wrapper = driver.home.root / "bin" / "kimi"
        real = wrapper.resolve()
        target = os.readlink(wrapper)
        wrapper.unlink()
        wrapper.write_text(
            '#!/bin/sh\n[ "$1" = -w ] && printf %s \'{"work_dirs":[]}\' > "$HOME/.kimi/kimi.json"\n'
            f'exec {target} "$@"\n'
        )
        wrapper.chmod(0o755)
        config = driver.home.root / ".config" / "corral"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.toml").write_text(f'[programs]\nkimi-cli = "{wrapper}"\n')
        assert real.exists()
        with resume(driver, "lost-all-the-same") as agent:
            agent.wait_ready()
            corral.wait(lambda survey: survey["sessions"][0]["warnings"] != [], "a warning")
            agent.terminal.end()
        (warning,) = corral.rows()["lost-all-the-same"]["warnings"]
        copy = Path(warning.rpartition(" ")[2])
        assert copy.read_bytes() == kept
        assert warning in corral.run("doctor").stdout

    def test_an_empty_session_left_by_a_kill_is_empty(self, driver: KimiCli, corral: Corral) -> None:
        import signal

        with driver.start(session_id="never-prompted") as agent:
            agent.wait_ready()
            corral.wait_live({"never-prompted": [agent.serving_pid()]})
            kill_serving(agent, signal.SIGKILL)
            corral.wait_resting({"never-prompted": "empty"})
        row = corral.rows()["never-prompted"]
        assert (row["state"], row["restore"]["reason"]) == ("empty", "not_durable")

    @staticmethod
    def refuse(driver: KimiCli, corral: Corral, session_id: str) -> str:
        """What is said; nothing on disk changes."""
        before = tree(driver.home.data)
        done = corral.run("resume", session_id)
        assert done.returncode == 1
        assert tree(driver.home.data) == before
        return done.stderr

    @staticmethod
    def session_dir(driver: KimiCli, session_id: str) -> Path:
        (found,) = (driver.home.data / "sessions").glob(f"*/{session_id}")
        return found

    @staticmethod
    def forget_directory(driver: KimiCli, directory: Path) -> None:
        """What the race of kimi-cli's own registry does: the entry is gone."""
        registry = driver.home.data / "kimi.json"
        content = json.loads(registry.read_text())
        content["work_dirs"] = [entry for entry in content["work_dirs"] if entry["path"] != str(directory)]
        registry.write_text(json.dumps(content))

    @staticmethod
    def remember_directories(driver: KimiCli, directories: Sequence[Path]) -> None:
        """What the registry would say if no start had lost the entry of another; in the words of an entry there."""
        registry = driver.home.data / "kimi.json"
        content = json.loads(registry.read_text())
        some = content["work_dirs"][0]
        content["work_dirs"] = [{**some, "path": str(one), "last_session_id": None} for one in directories]
        registry.write_text(json.dumps(content))


def find_said(driver: KimiCli, text: str) -> set[str]:
    """The buckets of the sessions in which this was said."""
    logs = (driver.home.data / "sessions").glob("*/*/context.jsonl")
    return {log.parent.parent.name for log in logs if text in log.read_text()}


def bucket(directory: Path) -> str:
    return hashlib.md5(str(directory).encode(), usedforsecurity=False).hexdigest()


def count_live(survey: Any) -> int:
    return sum(row["state"] == "live" for row in survey["sessions"])
