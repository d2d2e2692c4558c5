"""PIDs of dead agents given to strangers, and judged in one process: none of their sessions is live."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.reuse_scenarios import TIMEOUT_S, require_no_reuse_is_live
from tests.long_run import REUSES


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_no_session_is_live_by_a_number_that_was_reused(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    require_no_reuse_is_live(request.node, "one process", "survey", REUSES, tmp_path)
