"""qwen-code 0.24.4, killed at any moment."""

from __future__ import annotations

import pytest

from tests.contract.drive_qwen_code import QwenCode
from tests.contract.kill_scenarios import KillContract


class TestQwenCode(KillContract):
    turn_begin, turn_end = '"type":"user"', '"type":"assistant"'

    @pytest.fixture
    def driver(self, qwen_code: QwenCode) -> QwenCode:
        return qwen_code
