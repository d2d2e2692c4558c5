"""The tabs of kimi-code 2.1.0, for real."""

from __future__ import annotations

import pytest

from tests.contract.drive_kimi_code import KimiCode
from tests.contract.tab_scenarios import TabContract


class TestTabs(TabContract):
    session_at_start = False
    headless = "kimi -p"
    place = "sessions/*/{id}"
    transcript = "agents/main/wire.jsonl"

    @pytest.fixture
    def driver(self, kimi_code: KimiCode) -> KimiCode:
        return kimi_code
