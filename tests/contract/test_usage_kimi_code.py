"""What kimi-code 2.1.0 spends, for real."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from tests.contract.account import Account
from tests.contract.actions import compact
from tests.contract.drive_kimi_code import KimiCode
from tests.contract.usage_scenarios import UsageContract


class TestKimiCodeUsage(UsageContract):
    interrupted: ClassVar = {"interrupted turn": 2}
    stopped_compaction: ClassVar = {"request without usage": 1}
    killed: ClassVar = {"killed turn": 1}
    untraced = frozenset(
        {
            "session titles made by a service of Kimi",
            "attempts that failed and were repeated",
            "the last turn of a killed process, until the session goes on",
            "the last request of a sub-agent that was killed",
        }
    )

    @pytest.fixture
    def driver(self, kimi_code: KimiCode) -> KimiCode:
        return kimi_code

    def test_a_compaction_is_a_record_of_its_own_and_not_cumulative(self, driver: KimiCode, account: Account) -> None:
        with driver.start() as agent:
            agent.wait_ready()
            agent.prompt("one")
            agent.prompt("two")
            compactions = [compact(agent)]
            agent.prompt("three")
            compactions.append(compact(agent))
            account.wait_counted()
            agent.quit()
        (log,) = agent.logs()
        records = [json.loads(line) for line in log.read_text().splitlines()]
        usage = [each["usage"] for each in records if each.get("usageScope") == "session"]
        assert [(each["inputOther"], each["inputCacheRead"], each["output"]) for each in usage] == [
            account.spent(call.billed)[:3] for call in compactions
        ]
