"""Large configurations: the work grows with their size, not with its square."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from corral.hooks.command import hook_command
from corral.hooks.edit import Entry, json_config, toml_config
from corral.hooks.edit.jsonc import parse
from corral.hooks.install import install, uninstall
from corral.hooks.status import read_status
from corral.model.hook_install import Outcome

COMMAND = hook_command("qwen-code", "/data", "/state")
ENTRIES = [Entry(f"Event{number}", COMMAND) for number in range(8)]


def _hook(command: str) -> dict[str, Any]:
    return {"matcher": "x", "hooks": [{"type": "command", "command": command}]}


JSON_SHAPES: dict[str, Callable[[int], str]] = {
    "members": lambda size: json.dumps({f"key{number:06}": number for number in range(size // 22)}, indent=1),
    "members on one line": lambda size: json.dumps({f"key{number:06}": number for number in range(size // 20)}),
    "a list": lambda size: json.dumps({"allow": [f"Bash(git {number})" for number in range(size // 22)]}, indent=2),
    "comments": lambda size: "{\n" + "  // why\n  /* how */\n" * (size // 23) + "}\n",
    "hooks of others": lambda size: json.dumps(
        {"hooks": {"Event1": [_hook(f"beep {number}") for number in range(size // 95)]}}, indent=1
    ),
    "hooks of ours": lambda size: json.dumps(
        {"hooks": {"Event1": [_hook(COMMAND) for _ in range(size // 250)], "Event2": [_hook("beep")]}}, indent=1
    ),
    "hooks of ours in one group": lambda size: json.dumps(
        {"hooks": {"Event1": [{"hooks": [{"command": COMMAND} for _ in range(size // 200)]}]}}, indent=1
    ),
    "events": lambda size: json.dumps({"hooks": {f"Event{number}": [] for number in range(size // 20)}}, indent=1),
}
TOML_SHAPES: dict[str, Callable[[int], str]] = {
    "keys": lambda size: "".join(f"key{number:06} = {number}\n" for number in range(size // 20)),
    "tables": lambda size: "".join(f"[t{number:06}]\na = 1\n" for number in range(size // 16)),
    "comments": lambda size: "# why\n" * (size // 6),
    "hooks of others": lambda size: "".join(
        f'[[hooks]]\nevent = "Stop"\ncommand = "beep {number}"\n' for number in range(size // 50)
    ),
    "hooks of ours": lambda size: "".join(
        f'[[hooks]]\nevent = "Stop"\ncommand = {json.dumps(COMMAND)}\n\n' for _ in range(size // 150)
    ),
    "keys before a list": lambda size: (
        "".join(f"key{number:06} = {number}\n" for number in range(size // 20))
        + 'hooks = [{ event = "Stop", command = "beep" }]\n'
    ),
    "a list on lines": lambda size: (
        "hooks = [\n"
        + "".join(f'  {{ event = "Stop", command = "beep {number}" }},\n' for number in range(size // 45))
        + "]\n"
    ),
    "a list with ours": lambda size: (
        "hooks = [\n"
        + "".join(f'  {{ event = "Stop", command = {json.dumps(COMMAND)} }},\n' for _ in range(size // 150))
        + "]\n"
    ),
}
CASES = [("json", name) for name in JSON_SHAPES] + [("toml", name) for name in TOML_SHAPES]


def install_and_take_out(kind: str, text: str) -> None:
    """Everything that `hooks install`, `status` and `uninstall` do with a configuration."""
    edit = json_config if kind == "json" else toml_config
    edit.find_entries(text)
    edit.find_switch_off(text)
    clean = edit.remove_entries(text, ())
    after = edit.add_entries(clean, ENTRIES)
    cleaned = edit.remove_entries(after, edit.list_missing(clean, ENTRIES))
    assert sorted(edit.find_entries(after)) == sorted(ENTRIES)
    assert edit.find_entries(cleaned) == []


def shape(kind: str, name: str, size: int) -> str:
    return (JSON_SHAPES if kind == "json" else TOML_SHAPES)[name](size)


def count_steps(kind: str, text: str) -> int:
    """How many lines of Python are run."""
    steps = 0

    def trace(frame: FrameType, event: str, arg: object):
        nonlocal steps
        steps += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        install_and_take_out(kind, text)
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_four_times_the_size_is_about_four_times_the_work(kind: str, name: str):
    small, large = (count_steps(kind, shape(kind, name, size)) for size in (6_000, 24_000))
    assert large < 6 * small


@pytest.mark.parametrize(("kind", "name"), [("json", "members"), ("json", "events"), ("toml", "tables")])
def test_a_configuration_of_640_kilobytes_is_edited(kind: str, name: str):
    text = shape(kind, name, 640_000)
    assert len(text) > 500_000
    install_and_take_out(kind, text)


@pytest.mark.parametrize("name", ["members", "hooks of others"])
def test_hooks_in_settings_of_640_kilobytes_take_less_than_a_second_each(make: Any, name: str):
    """What is done in C counts here, too. It is work, and not time: others use this machine."""
    setting = make("qwen-code", shape("json", name, 640_000).encode())
    for do in (install, read_status, install, uninstall):
        parse.cache_clear()  # each is a command of its own
        begun = time.process_time()
        done = do(setting)
        spent = time.process_time() - begun
        assert spent < 1.0, do.__name__
        assert getattr(done, "outcome", None) is not Outcome.BROKEN
