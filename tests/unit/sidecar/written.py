"""Records as corral and as foreign writers leave them, and what a refusal is called."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from corral import sidecar
from corral.sidecar import Refusal, RuntimeRecord

HOST = os.uname().nodename


def put(directory: Path, **fields: object) -> Path:
    """A v1 record as a foreign writer would leave it."""
    base = {"schema_version": 1, "pid": 1, "session_id": "s", "work_dir": "/w", "hostname": HOST}
    path = directory / "runtime.json"
    path.write_text(json.dumps(base | {"started_at": time.time()} | fields))
    return path


def write(directory: Path, session_id: str = "s") -> RuntimeRecord | Refusal:
    return sidecar.write(directory, session_id=session_id, work_dir="/w", cli="kimi-cli", version="1", best_effort=True)


def code(result: object) -> str:
    assert isinstance(result, Refusal), result
    return result.code
