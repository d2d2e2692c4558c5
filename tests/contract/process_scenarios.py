"""Which process has which session, for every CLI: several processes of one session, and one beside another."""

from __future__ import annotations

from tests.contract.corral_cli import Corral
from tests.contract.driver import Driver
from tests.contract.model_server import ModelServer
from tests.contract.steps import PrintRun, find_session


class ProcessContract:
    """Several processes, told apart by evidence."""

    def test_a_session_opened_twice_shows_both_whoever_leaves_first_and_refuses_a_third(
        self, driver: Driver, corral: Corral
    ) -> None:
        with driver.start() as one:
            one.wait_ready()
            one.prompt("hello maple")
            session_id = find_session(driver, "hello maple")
            first = one.serving_pid()
            with driver.start(resume=session_id) as two:
                two.wait_ready()
                corral.wait_live({session_id: [first, two.serving_pid()]})
                refused = corral.run("resume", session_id)
                assert refused.returncode == 1 and "already_live" in refused.stderr
                two.quit()
            corral.wait_live({session_id: [first]})
            with driver.start(resume=session_id) as three:
                three.wait_ready()
                corral.wait_live({session_id: [first, three.serving_pid()]})
                one.quit()
                corral.wait_live({session_id: [three.serving_pid()]})
                three.quit()
        assert corral.states() == {session_id: "idle"}

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
