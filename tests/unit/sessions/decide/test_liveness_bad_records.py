"""Records that never become a claim: refused by name where they are read, hence without any verdict."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from corral.sidecar.files import Unreadable, read_regular
from corral.sidecar.record import MAX_BYTES, Refusal, RuntimeRecord, parse

GOOD: dict[str, Any] = {
    "schema_version": 1,
    "pid": 4711,
    "session_id": "s1",
    "work_dir": "/src/app",
    "hostname": "box",
    "started_at": 1_005_000.5,
    "kimi_version": "1.51",
}


def refused(data: bytes) -> str:
    found = parse(data)
    assert isinstance(found, Refusal)
    return found.code


def dump(**changed: Any) -> bytes:
    return json.dumps(GOOD | changed).encode()


@pytest.mark.parametrize("pid", [0, -1, True, 1e3, "12", 2**31, 2**64, None])
def test_30_what_is_no_pid_is_refused(pid: object) -> None:
    assert refused(dump(pid=pid)) == "invalid:pid"


@pytest.mark.parametrize(
    "data",
    [b"", dump()[:40], b"\xef\xbb\xbf" + dump(), dump().decode().encode("utf-16"), dump() + b"garbage"],
    ids=["empty", "half", "BOM", "UTF-16", "trailing garbage"],
)
def test_37_what_is_no_plain_json_is_malformed(data: bytes) -> None:
    assert refused(data) == "malformed"


def test_38_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in (*tmp_path.iterdir(), Path("/dev/zero")):
            assert isinstance(read_regular(str(path), MAX_BYTES), Unreadable), path


@pytest.mark.parametrize("version", [2, 1.0, "1", True, None])
def test_39_another_schema_is_unsupported(version: object) -> None:
    assert refused(dump(schema_version=version)) == "unsupported"


def test_40_unknown_fields_are_ignored() -> None:
    assert parse(dump(color="red", nested={"a": [1]})) == parse(dump())
    assert isinstance(parse(dump()), RuntimeRecord)


def test_41_a_background_tasks_file_of_the_same_name_is_refused() -> None:
    task = {"status": "running", "pid": 4711, "started_at": 1_005_000.5, "exit_code": None}
    assert refused(json.dumps(task).encode()) == "invalid:schema_version"


def test_42_an_unreadable_file_says_why(tmp_path: Path) -> None:
    found = read_regular(str(tmp_path / "missing"), MAX_BYTES)
    assert isinstance(found, Unreadable)
    assert (found.code, found.reason) == ("io:ENOENT", "No such file or directory")


def test_44_a_file_replaced_while_open_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    path.write_bytes(dump())
    fd = os.open(path, os.O_RDONLY)
    try:
        (tmp_path / "new").write_bytes(dump(session_id="s2"))
        os.replace(tmp_path / "new", path)
        assert os.read(fd, MAX_BYTES) == dump()
        assert path.read_bytes() == dump(session_id="s2")
    finally:
        os.close(fd)
