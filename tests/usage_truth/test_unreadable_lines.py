"""Lines that can't be read are named among the skipped, also where nothing in them looks like usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.usage_truth.world import World

_SHORT, _LONG = "x" * 50, "x" * 40_000
_DULL = {
    ".kimi": lambda text: {"timestamp": 1.79e9, "message": {"type": "ContentPart", "payload": {"text": text}}},
    ".kimi-code": lambda text: {"type": "context.append_message", "message": {"text": text}, "time": 1_791_000_000_000},
    ".qwen": lambda text: {"uuid": "u", "type": "tool_result", "message": {"parts": [{"text": text}]}},
}
_OTHER = {
    ".kimi": lambda text: {"timestamp": 1.79e9, "message": {"type": "NewKind", "payload": {"text": text}}},
    ".kimi-code": lambda text: {"type": "new.kind", "text": text, "time": 1_791_000_000_000},
    ".qwen": lambda text: {"uuid": "u", "type": "new_kind", "text": text},
}


def _write(record: object, home: str) -> bytes:
    return json.dumps(record, separators=None if home == ".kimi" else (",", ":")).encode()


def _log(world: World, home: str) -> Path:
    """A log that ends with a whole line, and in which nothing is skipped yet."""
    for path, data in world.content().items():
        is_log = "/chats/" in path if home == ".qwen" else path.endswith("wire.jsonl")
        if path.startswith(f"{home}/") and is_log and data.endswith(b"\n") and path not in world.truth.skips:
            return world.root / path
    raise AssertionError(f"no sound log in {home}")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, 4)
    world.write()
    return world


@pytest.mark.parametrize("home", _DULL)
def test_each_is_named_by_its_place(world: World, home: str) -> None:
    bad = [
        b"garbage",
        b"\0" * 300,
        b'[1, "user"]',
        b"\xff\xfe{}",
        b"{" * 5000,
        _LONG.encode(),
        *(_write(kind[home](text), home)[:-9] for kind in (_DULL, _OTHER) for text in (_SHORT, _LONG)),
    ]
    sound = [
        b"",
        b"  ",
        b'{"NaN": NaN}',
        b'{"lone": "\\ud800"}',
        *(_write(_OTHER[home](t), home) for t in (_SHORT, _LONG)),
    ]
    path = _log(world, home)
    before = world.usage("--by", "model")
    offset, places = path.stat().st_size, list[int]()
    with path.open("ab") as file:
        for number, line in enumerate(bad):
            places.append(offset)
            for one in (line, sound[number % len(sound)]):
                file.write(one + b"\n")
                offset += len(one) + 1
    after = world.usage("--by", "model")
    assert [row["offset"] for row in after["skipped"] if row["path"] == str(path)] == places
    assert after["total"]["tokens"] == before["total"]["tokens"]


@pytest.mark.parametrize("home", _DULL)
def test_a_line_that_is_still_being_written_is_none_of_them(world: World, home: str) -> None:
    path = _log(world, home)
    line = _write(_DULL[home](_LONG), home)
    with path.open("ab") as file:
        file.write(line[:-9])
    assert not [row for row in world.usage("--by", "model")["skipped"] if row["path"] == str(path)]
    with path.open("ab") as file:
        file.write(line[-9:] + b"\n")
    assert not [row for row in world.usage("--by", "model")["skipped"] if row["path"] == str(path)]
