"""Real reuses of a PID, 1,000 of them and 10,000 with LONG=1: not one dead session may be called live, and no living one dead."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.integration.liveness.machine import environment, need_root, unshare
from tests.long_run import UNSEEN_REUSES

REUSES = UNSEEN_REUSES
LIVE_CHECKS = 2 * REUSES
TIMEOUT_S = 270


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_not_one_false_answer() -> None:
    need_root()
    namespace = unshare("--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
    loop = [sys.executable, "-m", "tests.integration.liveness.reuse_loop", str(REUSES), str(LIVE_CHECKS)]
    done = subprocess.run([*namespace, *loop], stdout=subprocess.PIPE, timeout=TIMEOUT_S, env=environment(), check=True)
    counts = json.loads(done.stdout)
    print(counts)
    assert counts["alive_by_kill"] == REUSES
    assert counts["aged"] == {"stale(reused)": REUSES}
    assert counts["young"].keys() <= {"unknown(tolerance)", "stale(reused)"}  # the latter where the spawn took long
    assert counts["young"]["unknown(tolerance)"] >= REUSES * 9 // 10
    assert counts["by_identity"] == {"stale(reused)": REUSES - counts["same_tick"]}
    assert REUSES - counts["same_tick"] >= REUSES // 20, "too few reuses in different ticks"
    assert counts["signals_to_strangers"] == 0
    assert counts["living"] == {"live(began-before)": LIVE_CHECKS // 2, "live(exact)": LIVE_CHECKS // 2}
