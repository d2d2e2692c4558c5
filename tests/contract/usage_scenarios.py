"""What corral must count for every CLI, written once: the model server knows what it billed, and what for."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest

from tests.contract.account import Account
from tests.contract.actions import (
    ask_aside,
    begin_slow_delegation,
    begin_slow_turn,
    compact,
    delegate,
    interrupt,
    stop_compaction,
)
from tests.contract.driver import Driver
from tests.contract.model_calls import Kind, total
from tests.contract.model_server import ModelServer
from tests.contract.steps import find_session, kill_serving
from tests.contract.tui import CTRL_C, ESCAPE, Tui


class UsageContract:
    """Derive, and provide a `driver` fixture. The rest says what the CLI writes down, in corral's words."""

    unrecorded: Mapping[Kind, str] = {}
    """Kinds of calls that were billed and whose tokens the CLI writes nowhere, and what corral says instead."""
    tells_reasoning = False
    """Whether reasoning is recorded apart from the output."""
    names_parent = True
    """Whether a fork says where it came from: then what was copied stays on the account of its source."""
    makes_titles = False
    """Whether it can have the model make a title for a session."""
    compaction_traces: Mapping[str, int] = {}
    """Of two compactions: those that left no tokens."""
    interrupted: Mapping[str, int]
    """Of a turn ended by Escape, and one by Ctrl-C."""
    stopped_compaction: Mapping[str, int] = {}
    killed: Mapping[str, int] = {}
    """Of a turn whose process was killed, once the session has gone on."""
    untraced: frozenset[str]
    """All that leaves no trace."""

    @pytest.fixture
    def account(self, driver: Driver, model_server: ModelServer) -> Account:
        return Account(driver, model_server, self.unrecorded, tells_reasoning=self.tells_reasoning)

    def test_turns_tools_and_sub_agents_are_counted_as_billed(
        self, driver: Driver, account: Account, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("a plain turn")
            agent.prompt("RUN:echo a tool")
            delegate(agent, "look around")
            account.wait_counted()
            agent.new_session()
            agent.prompt("another session")
            account.wait_counted()
            agent.quit()
        driver.print_run("AGENT:look around without a terminal")
        account.settle()
        assert account.owed()[Kind.SUBAGENT].output > 0
        assert account.traces() == {}
        assert account.named() == self.untraced

    def test_copies_by_undo_fork_and_resume_are_counted_once(
        self, driver: Driver, account: Account, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            kept = agent.prompt("kept")
            delegate(agent, "look around before the fork")
            undone = agent.prompt("undone")
            agent.undo()
            said = str(agent.prompt("after the undo").messages)
            assert kept.answer in said and undone.answer not in said
            account.wait_counted()
            source = find_session(driver, "after the undo")
            before = len(model_server.requests)
            fork = self.fork(driver, agent)
        with driver.start(resume=fork) as agent:
            agent.wait_ready()
            after = agent.prompt("after the fork")
            assert kept.answer in str(after.messages)
            assert after.prompt_cache_key in (None, fork)  # Kimi names the session to the model, Qwen does not
            account.wait_counted()
            agent.quit()
        assert find_session(driver, "after the fork") == fork != source
        in_fork = total(call for call in model_server.requests[before:] if call.kind is Kind.TURN)
        driver.print_run("back in the source", resume=source)
        account.settle()
        assert account.traces() == {}
        if self.names_parent:
            assert account.sessions()[fork] == account.spent(in_fork)

    def test_compactions_side_questions_and_titles_are_counted_or_said_to_be_missing(
        self, driver: Driver, account: Account, model_server: ModelServer
    ) -> None:
        self.allow_titles(driver)
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("one")
            agent.prompt("two")
            ask_aside(agent, "what now?")
            compact(agent)
            agent.prompt("three")
            compact(agent)
            agent.prompt("four")
            if self.makes_titles:
                agent.wait_call(lambda call: call.kind is Kind.TITLE and call.done, 60)
            account.wait_counted()
            agent.quit()
        account.settle()
        billed = {kind for kind, total in model_server.totals().items() if total.output}
        assert billed == {Kind.TURN, Kind.SIDE, Kind.COMPACTION} | ({Kind.TITLE} if self.makes_titles else set())
        assert account.traces() == self.compaction_traces
        said = account.named() | account.traces().keys()
        assert {word for kind, word in self.unrecorded.items() if kind in billed} <= said

    def test_what_was_interrupted_or_killed_is_counted_where_it_left_a_trace(
        self, driver: Driver, account: Account, model_server: ModelServer
    ) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("one")
            interrupt(agent, "ended by Escape", ESCAPE)
            agent.prompt("two")
            interrupt(agent, "ended by Ctrl-C", CTRL_C)
            agent.prompt("three")
            account.wait_traces(self.interrupted)
            stop_compaction(agent)
            agent.prompt("four")
            stopped = {**self.interrupted, **self.stopped_compaction}
            account.wait_traces(stopped)
            session_id = find_session(driver, "four")
            account.wait_counted()
            begin_slow_turn(agent, "killed")
            kill_serving(agent, signal.SIGKILL)
            assert account.traces() == stopped
        with driver.start(resume=session_id) as agent:
            agent.wait_ready()
            agent.prompt("five")
            account.wait_traces({**stopped, **self.killed})
            account.wait_counted()
            begin_slow_delegation(agent, "killed too")
            account.wait_counted()
            kill_serving(agent, signal.SIGKILL)
        model_server.slow_kinds.clear()
        driver.print_run("six", resume=session_id)
        account.settle()
        assert account.traces() == {**stopped, **self.killed}
        assert sum(call.killed for call in model_server.requests) == 5

    def allow_titles(self, driver: Driver) -> None:
        """Has the CLI make titles, where it does so only if it is asked to."""

    def fork(self, driver: Driver, agent: Tui) -> str:
        """Forks the session that is served, ends the process, and returns the fork's id."""
        fork = agent.fork()
        agent.quit()
        return fork
