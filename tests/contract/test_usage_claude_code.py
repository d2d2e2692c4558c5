"""What claude-code 2.1.325 spends, for real."""

from __future__ import annotations

import signal
from typing import ClassVar

import pytest

from tests.contract.account import Account
from tests.contract.actions import begin_slow_turn, interrupt
from tests.contract.drive_claude_code import ClaudeCode
from tests.contract.driver import Driver
from tests.contract.model_calls import Kind
from tests.contract.model_server import ModelServer
from tests.contract.steps import find_session, kill_serving
from tests.contract.tui import ESCAPE
from tests.contract.usage_scenarios import UsageContract

COMPACTION = "compactions"
SIDE_QUESTION = "side questions (/btw) and prompt suggestions"


class TestClaudeCodeUsage(UsageContract):
    unrecorded: ClassVar = {Kind.COMPACTION: COMPACTION, Kind.SIDE: SIDE_QUESTION}
    tells_reasoning = True
    interrupted: ClassVar = {"interrupted answer, of which only the input is recorded": 1}
    untraced = frozenset(
        {
            COMPACTION,
            SIDE_QUESTION,
            "names and summaries of sessions",
            "approval decisions made by a model (auto mode)",
            "web page digests and other side queries",
            "requests that were killed, or ended in an error",
        }
    )

    @pytest.fixture
    def driver(self, claude_code: ClaudeCode) -> ClaudeCode:
        return claude_code

    def test_what_was_interrupted_or_killed_is_counted_where_it_left_a_trace(
        self, driver: Driver, account: Account, model_server: ModelServer
    ) -> None:
        """Its server says what the input costs before the first word: that is recorded, with one token of output."""
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("one")
            account.wait_counted()
            stopped = interrupt(agent, "ended by Escape", ESCAPE)
            account.wait_traces(self.interrupted)
            agent.prompt("two")
            session_id = find_session(driver, "two")
            begin_slow_turn(agent, "killed")
            kill_serving(agent, signal.SIGKILL)
        driver.print_run("three", resume=session_id)
        assert account.traces() == self.interrupted
        assert sum(call.killed for call in model_server.requests) == 2
        counted = account.corral.json("usage")["total"]["tokens"]
        billed = account.owed()[Kind.TURN]
        begun = 1000 + stopped.number
        assert counted["input"] + counted["cache_read"] == billed.input + billed.cache_read + begun
        assert counted["output"] + counted["reasoning"] == billed.output + billed.reasoning + 1
