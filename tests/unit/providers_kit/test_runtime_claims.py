"""What a listing may remember of a runtime.json, so that it need not look at the file again."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from corral.providers.kit.runtime_claims import read_hint

RECORD = {"schema_version": 1, "pid": 4711, "session_id": "s1", "work_dir": "/src", "hostname": "box"}
WHOLE = {"boot_id": "boot", "pid_ns": 4026531836, "start_ticks": 7}


def hint(tmp_path: Path, **fields: object):
    path = tmp_path / "runtime.json"
    path.write_text(json.dumps(RECORD | {"started_at": time.time() - 60, "kimi_version": "1"} | fields))
    return read_hint(str(path))


@pytest.mark.parametrize("fields", [{}, WHOLE])
def test_a_record_is_remembered_by_its_pid(tmp_path, fields):
    found = hint(tmp_path, **fields)
    assert found is not None and (found.pid, found.hostname) == (4711, "box")


@pytest.mark.parametrize(
    "fields",
    [{"started_at": time.time() + 86_400}, {"pid_ns": 4026532999}, WHOLE | {"start_ticks": None}, {"pid": True}],
    ids=["ahead of the clock", "a namespace alone", "no start", "refused"],
)
def test_what_a_dead_pid_does_not_settle_is_looked_at_each_time(tmp_path, fields):
    found = hint(tmp_path, **{name: value for name, value in fields.items() if value is not None})
    assert found is not None and found.pid is None


def test_nothing_is_remembered_of_nothing(tmp_path):
    assert read_hint(str(tmp_path / "runtime.json")) is None
