"""qwen-code 0.24.4, for real."""

from __future__ import annotations

import pytest

from tests.contract.drive_qwen_code import QwenCode
from tests.contract.scenarios import SessionContract


class TestQwenCode(SessionContract):
    undo_moves = None
    needs_hooks = False

    @pytest.fixture
    def driver(self, qwen_code: QwenCode) -> QwenCode:
        return qwen_code
