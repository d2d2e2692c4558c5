"""The tabs of kimi-cli 1.51.0, for real."""

from __future__ import annotations

import pytest

from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.tab_scenarios import TabContract


class TestTabs(TabContract):
    headless = "kimi --print -p"
    place = "sessions/*/{id}"
    transcript = "context.jsonl"

    @pytest.fixture
    def driver(self, kimi_cli: KimiCli) -> KimiCli:
        return kimi_cli
