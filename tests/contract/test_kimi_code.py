"""kimi-code 2.1.0, for real."""

from __future__ import annotations

import pytest

from tests.contract.drive_kimi_code import KimiCode
from tests.contract.scenarios import SessionContract


class TestKimiCode(SessionContract):
    session_at_start = False
    fork_moves = False
    undo_moves = False

    @pytest.fixture
    def driver(self, kimi_code: KimiCode) -> KimiCode:
        return kimi_code
