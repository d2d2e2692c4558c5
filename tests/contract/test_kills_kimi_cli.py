"""kimi-cli 1.51.0, killed at any moment."""

from __future__ import annotations

import pytest

from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.kill_scenarios import KillContract


class TestKimiCli(KillContract):
    turn_begin, turn_end = '"TurnBegin"', '"TurnEnd"'

    @pytest.fixture
    def driver(self, kimi_cli: KimiCli) -> KimiCli:
        return kimi_cli
