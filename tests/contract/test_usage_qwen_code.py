"""What qwen-code 0.24.4 spends, for real: with the monthly file beside the transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.contract import homes
from tests.contract.account import Account
from tests.contract.agents import Agents
from tests.contract.conftest import alone
from tests.contract.drive_qwen_code import QwenCode
from tests.contract.driver import Driver
from tests.contract.model_calls import Kind
from tests.contract.model_server import MODEL, ModelServer
from tests.contract.steps import find_session
from tests.contract.tui import Tui
from tests.contract.usage_scenarios import UsageContract

SIDE_QUESTION = "side questions (/btw) and /advisor"
TITLE = "session titles, recaps and summaries"
SUGGESTION = "prompt suggestions and the speculative runs behind them"


class TestQwenCodeUsage(UsageContract):
    unrecorded: ClassVar = {Kind.SIDE: SIDE_QUESTION, Kind.TITLE: TITLE}
    tells_reasoning = True
    makes_titles = True
    interrupted: ClassVar = {"aborted turn": 2}
    untraced = frozenset(
        {
            SUGGESTION,
            SIDE_QUESTION,
            TITLE,
            "approval decisions made by a model",
            "memory look-ups, web page digests, image descriptions and other side queries",
            "turns stopped or killed before a word of the answer was written",
            "compactions that were stopped, and the last request of a sub-agent that was killed",
            "requests that ended in an error",
        }
    )

    @pytest.fixture
    def driver(self, home: Path, agents: Agents, model_server: ModelServer) -> Iterator[QwenCode]:
        with alone("qwen_code"):
            made = homes.make_qwen_code_home(home, agents, model_server, usage_statistics=True)
            yield QwenCode(made, model_server)

    def allow_titles(self, driver: Driver) -> None:
        change_settings(driver.home, fastModel=MODEL)

    def fork(self, driver: Driver, agent: Tui) -> str:
        source = find_session(driver, "after the undo")
        agent.quit()
        driver.print_run("made the fork", resume=source, args=("--fork-session",))
        return find_session(driver, "made the fork")

    def test_prompt_suggestions_are_said_to_be_missing(
        self, driver: QwenCode, account: Account, model_server: ModelServer
    ) -> None:
        change_settings(driver.home, ui={"enableFollowupSuggestions": True, "hideTips": True})
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("one")
            agent.prompt("two")  # none is made after the first answer
            agent.wait_call(lambda call: call.kind is Kind.SIDE and call.done, 60)
        account.settle()
        assert model_server.totals()[Kind.SIDE].output > 0
        assert SUGGESTION in account.named()


def change_settings(home: homes.Home, **changes: object) -> None:
    path = home.data / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
