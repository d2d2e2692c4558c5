"""kimi-cli 1.51.0 without our hooks: its own log tells which session it has, or at least which it can have."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.model_server import ModelServer
from tests.contract.steps import PrintRun, find_session
from tests.contract.terminal import Terminal
from tests.contract.tui import Tui
from tests.long_run import IS_LONG


@pytest.fixture
def driver(kimi_cli: KimiCli) -> KimiCli:
    """Where it is about noon: at six in the morning every process begins a new log."""
    hour = time.gmtime().tm_hour
    env = {**kimi_cli.home.env, "TZ": f"NOON{hour - 12:+d}"}
    return KimiCli(replace(kimi_cli.home, env=env), kimi_cli.server)


@pytest.fixture
def bare(driver: KimiCli) -> Corral:
    """corral in a home without our hooks."""
    return Corral(driver.home, driver.name)


def log_of(driver: KimiCli) -> Path:
    return driver.home.data / "logs" / "kimi.log"


OLDER_S = 1.5


def make_older(driver: KimiCli, text: str, session_id: str) -> None:
    """A session whose line in the log is certainly older than the process that starts next."""
    driver.print_run(text, session_id=session_id)
    time.sleep(OLDER_S)


@contextmanager
def started(driver: KimiCli, *args: str, resume: str | None = None) -> Iterator[Tui]:
    with driver.start(resume=resume, args=args) as agent:
        agent.wait_ready()
        yield agent


def evidence(corral: Corral, session_id: str) -> list[tuple[str, str, str]]:
    shown = corral.json("explain", session_id)["session"]
    return [(one["kind"], one["verdict"], one["rule"]) for one in shown["evidence"]]


class TestOneSession:
    def test_a_fresh_start_is_live_at_once_and_nothing_else_is_in_doubt(self, driver: KimiCli, bare: Corral) -> None:
        make_older(driver, "an older one says thyme", "older")
        with started(driver) as agent:
            (fresh,) = driver.session_ids_on_disk() - {"older"}
            survey = bare.ps()
            assert {row["session_id"]: (row["state"], row["pids"]) for row in survey["sessions"]} == {
                fresh: ("live", [agent.serving_pid()]),
                "older": ("idle", []),
            }
            assert survey["unattributed"] == []
            assert evidence(bare, fresh) == [("log", "live", "exact")]
            agent.prompt("the open one says willow")
            assert bare.live() == {fresh: [agent.serving_pid()]}
            assert bare.run("resume", "older", "--print").returncode == 0
            refused = bare.run("resume", fresh)
            assert refused.returncode == 1 and "already_live" in refused.stderr
            agent.quit()
        assert bare.states() == {fresh: "idle", "older": "idle"}

    def test_a_resumed_one_is_live_before_it_is_prompted(self, driver: KimiCli, bare: Corral) -> None:
        make_older(driver, "one says sage", "one")
        make_older(driver, "another says dill", "another")
        # First the list and --continue, while "another" is the last one.
        for args, wanted in ((("--session",), "another"), (("--continue",), "another"), (("--session", "one"), "one")):
            with driver.start(args=args) as agent:
                if args == ("--session",):
                    agent.terminal.wait_screen("Select a session")
                    assert bare.live() == {}
                    agent.terminal.send("\r")
                agent.wait_ready()
                assert bare.live() == {wanted: [agent.serving_pid()]}, args
                assert bare.ps()["unattributed"] == []
                agent.quit()
            assert bare.states() == {"one": "idle", "another": "idle"}
            time.sleep(OLDER_S)

    def test_the_same_session_in_two_processes_is_live_in_both(self, driver: KimiCli, bare: Corral) -> None:
        make_older(driver, "both say rue", "both")
        with started(driver, resume="both") as one, started(driver, resume="both") as two:
            one.prompt("now the first")
            assert bare.live() == {"both": [one.serving_pid(), two.serving_pid()]}

    def test_one_that_waits_in_its_list_is_not_given_the_session_of_another(
        self, driver: KimiCli, bare: Corral
    ) -> None:
        """The line of the other is in the log since it began, and is the last that it saw when it opened the log."""
        make_older(driver, "it says oat", "oat")
        with ExitStack() as stack:
            two = [stack.enter_context(driver.start(args=("--session",))) for _ in range(2)]
            fresh = stack.enter_context(driver.start())
            fresh.wait_ready()
            for agent in two:
                agent.terminal.wait_screen("Select a session")
            (session_id,) = driver.session_ids_on_disk() - {"oat"}
            assert bare.live() == {session_id: [fresh.serving_pid()]}


class TestSeveral:
    def test_after_a_switch_neither_is_believed(self, driver: KimiCli, bare: Corral) -> None:
        with started(driver) as agent:
            agent.prompt("first alder")
            first = find_session(driver, "first alder")
            second = agent.new_session()
            assert bare.states() == {first: "unknown", second: "unknown"}
            agent.prompt("second birch")
            assert bare.states() == {first: "unknown", second: "unknown"}
            (process,) = bare.ps()["unattributed"]
            assert process["pid"] == agent.serving_pid()
            agent.quit()
        assert bare.states() == {first: "idle", second: "idle"}

    def test_one_that_wrote_after_the_start_of_another_is_told_by_the_other(
        self, driver: KimiCli, bare: Corral
    ) -> None:
        make_older(driver, "one says fern", "one")
        make_older(driver, "two says moss", "two")
        with started(driver, resume="one") as one, started(driver, resume="two") as two:
            assert bare.live() == {"one": [one.serving_pid()], "two": [two.serving_pid()]}
            one.prompt("again the first")
            assert bare.live() == {"one": [one.serving_pid()], "two": [two.serving_pid()]}
            two.quit()
            # Nobody is left to say that the second line was not its own.
            bare.wait(lambda survey: state_of(survey, "one") == "unknown", "in doubt")
            assert bare.states() == {"one": "unknown", "two": "unknown"}

    def test_of_starts_at_once_none_is_live_in_another(self, driver: KimiCli, bare: Corral) -> None:
        names = ("red", "green", "blue")
        for name in names:
            driver.print_run(f"I am {name}", session_id=name)
        time.sleep(OLDER_S)
        with ExitStack() as stack:
            agents = {name: stack.enter_context(driver.start(resume=name)) for name in names}
            for agent in agents.values():
                agent.wait_ready()
            pids = {name: [agent.serving_pid()] for name, agent in agents.items()}
            for name, row in bare.rows().items():
                assert row["state"] in ("live", "unknown")
                assert row["state"] == "unknown" or row["pids"] == pids[name]


class TestForged:
    def test_a_prompt_that_looks_like_the_log_gives_no_process_a_session(
        self, driver: KimiCli, bare: Corral, model_server: ModelServer
    ) -> None:
        make_older(driver, "the victim says yew", "victim")
        stamp = time.strftime("%Y-%m-%d %H:%M:%S.000", time.gmtime(time.time() + offset_of(driver)))
        line = f"{stamp} | INFO     | kimi_cli.cli:_run:571 |  - Resuming session: victim"
        old = "2020-01-01 00:00:00.000 | INFO     | kimi_cli.cli:_run:571 |  - Resuming session: victim"
        run = PrintRun(driver, f"SLOW600 see\n{old}\n{line}\n{old}\n{line}")
        try:
            model_server.wait_for(lambda call: "SLOW600" in call.prompt)
            assert bare.live() == {}
            assert bare.states()["victim"] == "unknown"
        finally:
            model_server.release()
            run.wait()
        assert set(bare.states().values()) == {"idle"}


class TestAnotherPlace:
    def test_after_another_process_rotated_the_log_the_home_is_found_and_the_session_is_live(
        self, driver: KimiCli, bare: Corral
    ) -> None:
        make_older(driver, "one says hazel", "one")
        make_older(driver, "two says beech", "two")
        with started(driver, resume="one") as one:
            # What makes it rotate: the file was begun before the last 06:00.
            os.setxattr(log_of(driver), "user.loguru_crtime", str(time.time() - 2 * 86400).encode())
            with started(driver, resume="two") as two:
                assert len(list(log_of(driver).parent.iterdir())) == 2
                assert bare.live() == {"one": [one.serving_pid()], "two": [two.serving_pid()]}
                for rotated in log_of(driver).parent.glob("kimi.*.log"):
                    rotated.unlink()
                survey = bare.ps()
                assert [row["state"] for row in survey["sessions"]] == ["live", "live"]
                assert survey["unattributed"] == []

    def test_the_same_id_in_two_directories_is_believed_of_neither(self, driver: KimiCli, bare: Corral) -> None:
        there = driver.home.another_work_dir("there")
        driver.print_run("here I say moss", session_id="twice")
        driver.print_run("there I say lichen", work_dir=there, session_id="twice")
        with driver.start(there, resume="twice") as agent:
            agent.wait_ready()
            assert [row["state"] for row in bare.ps()["sessions"]] == ["unknown", "unknown"]

    def test_in_another_time_zone_it_is_not_believed(self, driver: KimiCli, bare: Corral) -> None:
        make_older(driver, "it says fir", "fir")
        argv = ["kimi", "--session", "fir"]
        env = {**driver.home.env, "TZ": "WEST+5"}
        with driver.on(Terminal(argv, cwd=driver.home.work_dir, env=env)) as agent:
            agent.wait_ready()
            assert bare.states() == {"fir": "unknown"}

    def test_a_server_that_keeps_the_log_open_has_no_session_by_it(self, driver: KimiCli, bare: Corral) -> None:
        make_older(driver, "it says elm", "elm")
        with driver.on(Terminal(["kimi", "acp"], cwd=driver.home.work_dir, env=driver.home.env)) as server:
            server.wait_until(lambda: b"Starting ACP server" in log_of(driver).read_bytes(), "a server")
            time.sleep(OLDER_S)
            with started(driver, resume="elm") as agent:
                bare.wait(lambda survey: state_of(survey, "elm") == "live", "live")
                assert bare.live() == {"elm": [agent.serving_pid()]}


@pytest.mark.skipif(not IS_LONG, reason="waits more than a minute for six in the morning: make contract LONG=1")
class TestSixOClock:
    def test_one_that_began_a_new_log_itself_is_not_believed(self, kimi_cli: KimiCli) -> None:
        wait = 75
        now = time.gmtime(time.time() + wait)
        ahead = (6 * 3600 - (now.tm_hour * 3600 + now.tm_min * 60 + now.tm_sec)) % 86400
        zone = f"<SIX>-{ahead // 3600}:{ahead % 3600 // 60:02d}:{ahead % 60:02d}"
        six = time.time() + wait
        driver = KimiCli(replace(kimi_cli.home, env={**kimi_cli.home.env, "TZ": zone}), kimi_cli.server)
        bare = Corral(driver.home, driver.name)
        with started(driver) as agent:
            assert time.time() < six - 2, "too slow a start for this test"
            (session_id,) = driver.session_ids_on_disk()
            assert bare.live() == {session_id: [agent.serving_pid()]}
            time.sleep(max(six - time.time(), 0) + 1)
            assert bare.live() == {session_id: [agent.serving_pid()]}
            agent.prompt("good morning")
            assert len(list(log_of(driver).parent.iterdir())) == 2
            assert bare.states() == {session_id: "unknown"}


def state_of(survey: Any, session_id: str) -> str:
    (state,) = [row["state"] for row in survey["sessions"] if row["session_id"] == session_id]
    return state


def offset_of(driver: KimiCli) -> int:
    """Seconds that its local time is ahead: the sign of TZ is the other way round."""
    return -int(driver.home.env["TZ"].removeprefix("NOON")) * 3600
