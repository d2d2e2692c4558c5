"""PIDs of dead agents given to strangers, and judged by what `corral ps` asks: none of their sessions is live."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.figures import REUSES_BY, note
from tests.integration.liveness.machine import environment, need_root, unshare
from tests.long_run import IS_LONG, UNTIL_VARIABLE, is_time_over, seed_of

TIMEOUT_S = 7_200 if IS_LONG else 280


def require_no_reuse_is_live(node: pytest.Item, way: str, word: str, count: int, home: Path) -> None:
    """So many reuses in a namespace of their own, each judged in the way that the word says."""
    need_root()
    namespace = unshare("--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
    loop = [sys.executable, "-m", "tests.contract.reuse_survey", str(count), seed_of("reuses", word), word]
    env = environment()
    wanted = ("PATH", "PYTHONPATH", UNTIL_VARIABLE)
    env = {name: env[name] for name in wanted if name in env} | {"HOME": str(home)}
    done = subprocess.run([*namespace, *loop], stdout=subprocess.PIPE, timeout=TIMEOUT_S, env=env, check=True)
    seen = json.loads(done.stdout)
    note(
        node,
        f"{REUSES_BY}{way}",
        **{
            "asked for": count,
            "reuses": seen["reuses"],
            "live before": sum(seen["verified"].values()),
            "strangers like agents": seen["reuses"] - seen["strangers"].get("another program", 0),
            "false live": len(seen["false"]),
        },
    )
    print(seen)
    assert seen["false"] == []
    assert seen["reuses"] == count or is_time_over()
    assert sum(seen["verified"].values()) >= seen["reuses"] // 3, (
        "too few records were believed while their process lived"
    )
