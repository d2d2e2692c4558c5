"""Files that are no logs, and lines that no memory should hold: counted around, said, and never waited for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.usage_truth.world import World, write_journal

_HUGE = 300 << 20
_MOST_MEMORY = 150 << 20
_ADDRESS_SPACE = 2 << 30


_MEASURED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
child = os.posix_spawn(sys.executable, [sys.executable, "-m", "corral", "usage", "--json", "--tz", "UTC"], os.environ)
_, status, used = os.wait4(child, 0)
print(used.ru_maxrss * 1024, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Started from a small process of its own: what a process had before it became another counts as its memory, too."""


def _usage_within_limits(world: World) -> tuple[Any, int]:
    """The report, and the most memory that its process had, in bytes."""
    command = [sys.executable, "-c", _MEASURED, str(_ADDRESS_SPACE)]
    done = subprocess.run(command, env=world.env, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout), int(done.stderr.split()[-1])


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, 9)
    world.write()
    return world


def _logs(world: World) -> list[Path]:
    """One log of each provider that ends with a whole line."""
    found: dict[str, Path] = {}
    for path, data in world.content().items():
        if data.endswith(b"\n") and ("wire.jsonl" in path or "/chats/" in path) and "subagents" not in path:
            found[path.partition("/")[0]] = world.root / path
    assert len(found) == 3
    return list(found.values())


def test_a_line_of_300_mb_costs_neither_memory_nor_its_neighbours(world: World) -> None:
    """It begins like usage, so that it is said; the last line of each log comes after it."""
    heads = {
        ".kimi": b'{"timestamp": 1.0, "message": {"type": "StatusUpdate", "payload": {"token_usage": "',
        ".kimi-code": b'{"type":"usage.record","agentId":"main","usage":"',
        ".qwen": b'{"uuid":"u","type":"system","subtype":"ui_telemetry","systemPayload":"',
    }
    logs = _logs(world)
    for log in logs:
        *first, last = log.read_bytes().splitlines(keepends=True)
        head = next(head for name, head in heads.items() if f"/{name}/" in str(log))
        with open(log, "wb") as file:
            file.writelines([*first, head])
            file.seek(_HUGE, os.SEEK_CUR)  # a hole: zeros that take no room
            file.writelines([b'"}\n', last])
    report, memory = _usage_within_limits(world)
    assert report["total"]["events"] == len(world.truth.requests)
    long = [row for row in report["skipped"] if "MiB" in row["reason"]]
    assert sorted(row["path"] for row in long) == sorted(map(str, logs))
    assert memory < _MOST_MEMORY


def test_what_stands_in_the_place_of_a_log_is_passed_by(world: World) -> None:
    before = world.usage()["total"]
    places: set[str] = set()
    for number, log in enumerate(_logs(world)):
        for kind in ("fifo", "link", "directory"):
            place = log.parent.parent / f"{number}{kind}" / "wire.jsonl" if log.name == "wire.jsonl" else None
            place = place or log.with_name(f"{number:08d}-0000-4000-8000-{kind.encode().hex()[:8]:0>12}.jsonl")
            place.parent.mkdir(exist_ok=True)
            places.add(str(place))
            if kind == "fifo":
                os.mkfifo(place)
            elif kind == "link":
                place.symlink_to(log)
            else:
                place.mkdir()
    report = world.usage()
    assert report["total"] == before
    told = {row["path"] for row in report["skipped"] if row["reason"] == "can't be read: not a regular file"}
    assert len(places) == 9 and places <= told


def test_a_pipe_in_the_place_of_a_transcript_leaves_its_session_to_the_monthly_file(world: World) -> None:
    gone = {line["sessionId"] for line in _month_lines(world)} - {
        path.stem for path in world.root.rglob("chats/*.jsonl")
    }
    before = world.usage()["total"]
    os.unlink(world.ledger_path)
    chats = next(world.root.rglob("chats"))
    for session_id in gone:
        os.mkfifo(chats / f"{session_id}.jsonl")
    report = world.usage()
    assert gone and {f"{session_id}.jsonl" for session_id in gone} <= {
        Path(row["path"]).name for row in report["skipped"]
    }
    assert report["total"] == before


def _month_lines(world: World) -> list[dict[str, Any]]:
    (month,) = world.root.rglob("token-usage-*.jsonl")
    return [json.loads(line) for line in month.read_bytes().splitlines()]


def test_a_log_that_turns_into_something_else_keeps_what_was_counted(world: World) -> None:
    before = world.usage()["total"]
    for log in _logs(world):
        log.unlink()
        os.mkfifo(log)
    assert world.usage()["total"] == before


def test_a_home_by_another_name_is_the_same_home(world: World) -> None:
    before = world.usage()["total"]
    (world.root / "elsewhere").symlink_to(world.root / ".kimi")
    world.env_more = {"KIMI_SHARE_DIR": str(world.root / "elsewhere")}
    assert world.usage()["total"] == before


def test_a_home_that_is_moved_or_copied_counts_once(world: World) -> None:
    before = world.usage("--by", "session")
    for name in (".kimi", ".kimi-code", ".qwen"):
        (world.root / name).rename(world.root / f"moved{name}")
        (world.root / name).symlink_to(world.root / f"moved{name}")
    assert world.usage("--by", "session")["rows"] == before["rows"]
    for name in (".kimi", ".kimi-code", ".qwen"):
        shutil.copytree(world.root / f"moved{name}", world.root / f"copied{name}")
    world.env_more = {
        "KIMI_SHARE_DIR": str(world.root / "copied.kimi"),
        "KIMI_CODE_HOME": str(world.root / "copied.kimi-code"),
        "QWEN_HOME": str(world.root / "copied.qwen"),
    }
    after = world.usage("--by", "session")
    assert (after["rows"], after["unrecorded"]) == (before["rows"], before["unrecorded"])


def test_homes_that_were_ever_named_are_read_on(world: World) -> None:
    """By a variable of one shell, or by an agent that reported; both may be gone when the question comes."""
    by_variable, by_agent = world.root / "by-variable", world.root / "by-agent"
    for number, place in enumerate((by_variable, by_agent)):
        log = place / "sessions" / ("0" * 32) / "s" / "wire.jsonl"
        log.parent.mkdir(parents=True)
        log.write_bytes(_status(number))
    before = world.usage()["total"]["events"]
    world.env_more = {"KIMI_SHARE_DIR": str(by_variable)}
    assert world.usage()["total"]["events"] == before + 1
    world.env_more = {}
    event = {"event": "start", "session_id": "s", "at": 1.0, "boottime": 1.0}
    write_journal(world.root, "kimi-cli", str(by_agent), [event], pid=4712)
    assert world.usage()["total"]["events"] == before + 2
    (world.root / ".local/state/corral/journal/kimi-cli/4712-99.json").unlink()
    for number, place in enumerate((by_variable, by_agent)):
        with open(place / "sessions" / ("0" * 32) / "s" / "wire.jsonl", "ab") as file:
            file.write(_status(number + 10))
    assert world.usage()["total"]["events"] == before + 4


def test_a_log_rewritten_behind_its_head_is_read_anew(world: World) -> None:
    place = world.root / ".kimi" / "sessions" / ("1" * 32) / "s"
    place.mkdir(parents=True)
    head = b"".join(_status(number) for number in range(100, 120))
    (place / "wire.jsonl").write_bytes(head + _status(1) + _status(2))
    before = world.usage()["total"]["events"]
    (place / "wire.jsonl").write_bytes(head + _status(3) + _status(4) + _status(5))
    assert world.usage()["total"]["events"] == before + 3


def _status(number: int) -> bytes:
    usage = {"input_other": 1, "output": 1, "input_cache_read": 0, "input_cache_creation": 0}
    payload = {"token_usage": usage, "message_id": f"chatcmpl-x{number}"}
    record = {"timestamp": 1_780_000_000 + number, "message": {"type": "StatusUpdate", "payload": payload}}
    return json.dumps(record).encode() + b"\n"
