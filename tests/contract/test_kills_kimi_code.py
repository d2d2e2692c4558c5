"""kimi-code 2.1.0, killed at any moment."""

from __future__ import annotations

import pytest

from tests.contract.drive_kimi_code import KimiCode
from tests.contract.kill_scenarios import KillContract


class TestKimiCode(KillContract):
    turn_begin, turn_end = '"turn.prompt"', 'turn.ended"'

    @pytest.fixture
    def driver(self, kimi_code: KimiCode) -> KimiCode:
        return kimi_code
