"""The tabs of qwen-code 0.24.4, for real."""

from __future__ import annotations

import pytest

from tests.contract.drive_qwen_code import QwenCode
from tests.contract.tab_scenarios import TabContract


class TestTabs(TabContract):
    needs_hooks = False
    headless = "qwen -p"
    place = "projects/*/chats/{id}.jsonl"

    @pytest.fixture
    def driver(self, qwen_code: QwenCode) -> QwenCode:
        return qwen_code
