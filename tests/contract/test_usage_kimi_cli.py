"""What kimi-cli 1.51.0 spends, for real."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.model_calls import Kind
from tests.contract.usage_scenarios import UsageContract

SIDE_QUESTION = "side questions (/btw) asked in the terminal"


class TestKimiCliUsage(UsageContract):
    unrecorded: ClassVar = {Kind.COMPACTION: "compaction", Kind.SIDE: SIDE_QUESTION}
    names_parent = False
    compaction_traces: ClassVar = {"compaction": 2}
    interrupted: ClassVar = {"interrupted turn": 2}
    stopped_compaction: ClassVar = {"compaction": 1}
    killed: ClassVar = {"killed turn": 1}
    untraced = frozenset(
        {
            SIDE_QUESTION,
            "session titles made by the web interface",
            "attempts that failed and were repeated",
            "the last turn of a killed process, until the session goes on",
            "the last request of a sub-agent that was killed",
        }
    )

    @pytest.fixture
    def driver(self, kimi_cli: KimiCli) -> KimiCli:
        return kimi_cli
