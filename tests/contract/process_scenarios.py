"""Which process has which session, for every CLI: with several of either, and without our hooks."""

from __future__ import annotations

from tests.contract.corral_cli import Corral, tree
from tests.contract.driver import Driver
from tests.contract.model_server import ModelServer
from tests.contract.steps import PrintRun, find_session


class ProcessContract:
    """Several processes, told apart by evidence. The flag says what the CLI has."""

    needs_hooks = True
    """Whether a process is unattributed without our hooks."""

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
            beside = PrintRun(driver, "SLOW600 beside it")
            try:
                model_server.wait_for(lambda call: call.prompt == "SLOW600 beside it")
                survey = corral.wait(lambda survey: len(survey["sessions"]) == 2, "two sessions")
                mine = {row["session_id"]: row["pids"] for row in survey["sessions"]}
                assert mine[session_id] == [pid]
            finally:
                model_server.release()
                beside.wait()
            corral.wait_live({session_id: [pid]})
            agent.quit()
        assert set(corral.states().values()) == {"idle"}

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
