"""What codex 0.166.0 spends, for real."""

from __future__ import annotations

import signal
from typing import ClassVar

import pytest

from tests.contract.account import Account
from tests.contract.actions import begin_slow_turn, interrupt
from tests.contract.drive_codex import Codex
from tests.contract.model_calls import Kind, total
from tests.contract.model_server import ModelServer
from tests.contract.steps import find_session, kill_serving
from tests.contract.tui import ESCAPE, TURN_SECONDS, Tui

TITLES = "titles that Codex has made for new threads"
UNTRACED = {
    TITLES,
    "the request under way when a turn was stopped or killed after a tool had run",
    "the last turn of a killed process, until the thread goes on",
    "attempts that failed and were repeated",
    "the first request of a fork, by versions that wrote running totals only",
}


def compact(agent: Tui) -> None:
    """What it prints then comes in pieces: the log tells."""
    before, ends = len(agent.server.requests), count_compactions(agent)
    agent.type_line("/compact")
    agent.wait_call(lambda call: call.number > before and call.kind is Kind.COMPACTION and call.done, TURN_SECONDS)
    agent.wait_until(lambda: count_compactions(agent) > ends, "the end of the compaction", TURN_SECONDS)


def count_compactions(agent: Tui) -> int:
    return sum(log.read_text(errors="replace").count(agent.compaction_end) for log in agent.logs())


class TestCodexUsage:
    """Few and long: the scenarios of the others ask for an undo, side questions and a stop of a compaction by the same
    keys, which Codex does not have."""

    unrecorded: ClassVar = {Kind.TITLE: TITLES}

    @pytest.fixture
    def driver(self, codex: Codex) -> Codex:
        return codex

    @pytest.fixture
    def account(self, driver: Codex, model_server: ModelServer) -> Account:
        return Account(driver, model_server, self.unrecorded, tells_reasoning=True)

    def test_turns_tools_sub_agents_compactions_and_forks_are_counted_as_billed(
        self, driver: Codex, account: Account, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("a plain turn")
            agent.prompt("RUN:echo a tool")
            agent.prompt("AGENT:look around")  # which runs beside, and no turn follows
            agent.wait_call(lambda call: call.kind is Kind.SUBAGENT and call.done, TURN_SECONDS)
            compact(agent)
            source = find_session(driver, "a plain turn")
            account.wait_counted()
            before = len(model_server.requests)
            fork = agent.fork()
            compact(agent)
            agent.prompt("after the fork")
            account.wait_counted()
            agent.quit()
        in_fork = total(call for call in model_server.requests[before:] if call.kind is not Kind.TITLE)
        driver.print_run("back in the source", resume=source)
        account.settle()
        assert account.sessions()[fork] == account.spent(in_fork)
        owed = account.owed()
        assert owed[Kind.SUBAGENT].output > 0 and owed[Kind.COMPACTION].output > 0
        assert account.traces() == {} and account.named() == UNTRACED

    def test_what_was_interrupted_or_killed_is_counted_where_it_left_a_trace(
        self, driver: Codex, account: Account, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("one")
            interrupt(agent, "ended by Escape", ESCAPE)
            agent.prompt("two")
            account.wait_traces({"interrupted turn": 1})
            session_id = find_session(driver, "one")
            begin_slow_turn(agent, "killed")
            kill_serving(agent, signal.SIGKILL)
            assert account.traces() == {"interrupted turn": 1}
        driver.print_run("three", resume=session_id)
        account.settle()
        assert account.traces() == {"interrupted turn": 1, "killed turn": 1}
        assert sum(call.killed for call in model_server.requests) == 2
