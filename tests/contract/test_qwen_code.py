"""qwen-code 0.24.4, for real."""

from __future__ import annotations

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.drive_qwen_code import QwenCode
from tests.contract.model_server import ModelServer
from tests.contract.scenarios import SessionContract
from tests.contract.steps import PrintRun, find_session


class TestQwenCode(SessionContract):
    fork_moves = None
    undo_moves = False

    @pytest.fixture
    def driver(self, qwen_code: QwenCode) -> QwenCode:
        return qwen_code

    def test_a_fork_made_at_start_is_a_session_of_its_own(self, driver: QwenCode, corral: Corral) -> None:
        driver.print_run("the source says elder")
        source = find_session(driver, "the source says elder")
        with driver.start(resume=source, args=("--fork-session",)) as agent:
            agent.wait_ready()
            agent.prompt("after the fork")
            fork = find_session(driver, "after the fork")
            assert fork != source
            corral.wait_live({fork: [agent.serving_pid()]})
            row = corral.rows()[fork]
            assert row["forked_from"] == source
            assert corral.states()[source] == "idle"
            agent.quit()

    def test_a_print_run_without_hooks_is_unattributed(
        self, driver: QwenCode, bare: Corral, model_server: ModelServer
    ) -> None:
        driver.print_run("an older one says thyme")
        beside = PrintRun(driver, "SLOW600 unseen")
        try:
            model_server.wait_for(lambda call: call.prompt == "SLOW600 unseen")
            survey = bare.ps()
            assert len(survey["unattributed"]) == 1
            assert {row["state"] for row in survey["sessions"]} == {"unknown"}
        finally:
            model_server.release()
            beside.wait()
        assert set(bare.states().values()) == {"idle"}
