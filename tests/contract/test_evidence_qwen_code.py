"""qwen-code 0.24.4, when evidence breaks: its own registry tells, whatever becomes of our hooks."""

from __future__ import annotations

import pytest

from tests.contract.drive_qwen_code import QwenCode
from tests.contract.evidence_scenarios import EvidenceContract


class TestQwenCode(EvidenceContract):
    tells_by_itself = True

    @pytest.fixture
    def driver(self, qwen_code: QwenCode) -> QwenCode:
        return qwen_code
