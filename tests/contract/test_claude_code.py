"""claude-code 2.1.325, for real."""

from __future__ import annotations

import json
import signal

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.drive_claude_code import ClaudeCode
from tests.contract.scenarios import SessionContract
from tests.contract.steps import find_session, kill_serving


class TestClaudeCode(SessionContract):
    undo_moves = False

    @pytest.fixture
    def driver(self, claude_code: ClaudeCode) -> ClaudeCode:
        return claude_code

    @pytest.fixture
    def corral(self, driver: ClaudeCode) -> Corral:
        """Without hooks: its own registry is complete."""
        return Corral(driver.home, driver.name)

    def test_one_that_asks_waits_until_it_is_killed_and_its_record_is_not_believed(
        self, driver: ClaudeCode, corral: Corral
    ) -> None:
        (driver.home.data / "settings.json").write_text(json.dumps({"permissions": {"defaultMode": "default"}}))
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt_no_wait("RUN:touch asked-first")
            (row,) = corral.wait(lambda survey: survey["sessions"][0]["activity"] == "waiting", "waiting")["sessions"]
            assert (row["state"], row["waits_for"]) == ("live", "permission prompt")
            session_id = find_session(driver, "RUN:touch asked-first")
            kill_serving(agent, signal.SIGKILL)
            corral.wait_resting({session_id: "orphaned"})
        (left,) = (driver.home.data / "sessions").glob("*.json")
        assert json.loads(left.read_text())["status"] == "waiting"
        row = corral.rows()[session_id]
        assert (row["activity"], row["waits_for"], row["restore"]["kind"]) == (None, None, "resume")
