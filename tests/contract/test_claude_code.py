"""claude-code 2.1.325, for real."""

from __future__ import annotations

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.drive_claude_code import ClaudeCode
from tests.contract.scenarios import SessionContract


class TestClaudeCode(SessionContract):
    undo_moves = False

    @pytest.fixture
    def driver(self, claude_code: ClaudeCode) -> ClaudeCode:
        return claude_code

    @pytest.fixture
    def corral(self, driver: ClaudeCode) -> Corral:
        """Without hooks: its own registry is complete."""
        return Corral(driver.home, driver.name)
