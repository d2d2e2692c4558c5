"""What stays behind a start until the provider confirms it: asleep while nothing happens, and awake at once."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from tests.integration.terminals.held import wait_until

QUIET_SECONDS = 4.0


def find_guard(tab: str) -> int | None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"corral.tabs.guard" in words and tab.encode() in words:
                return int(entry.name)
    return None


def ticks_used(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def sleeps(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("nonvoluntary_ctxt_switches")[0].rpartition(":")[2])


def test_a_guard_sleeps_while_nothing_happens_and_hears_the_first_word_at_once(world):
    """The agent says nothing until it is told to: what wakes the guard is the file that it writes then."""
    go = world.root / "go"
    late = world.root / "late"
    late.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {world.program} --version\n'
        f'while [ ! -e {go} ]; do sleep 0.1; done\nexec {world.program} "$@"\n'
    )
    late.chmod(0o755)
    world.config.write_text(f'[programs]\nkimi-cli = "{late}"\n')
    done = world.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks")
    assert done.returncode == 0, done
    tab = done.stdout.strip()
    wait_until(lambda: find_guard(tab) is not None, "the guard")
    guard = find_guard(tab)
    assert guard is not None
    wait_until(lambda: is_waiting(guard), "its first look")
    before, slept = ticks_used(guard), sleeps(guard)
    time.sleep(QUIET_SECONDS)
    assert (ticks_used(guard), sleeps(guard)) == (before, slept), "it looked although nothing had happened"

    go.touch()
    (launch,) = (world.state / "launches").glob("*.json")
    wait_until(lambda: json.loads(launch.read_text())["confirmed"], "the confirmation")
    (spoken,) = world.root.glob(".kimi/sessions/*/*/runtime.json")
    assert os.stat(launch).st_mtime - os.stat(spoken).st_mtime < 2.0
    wait_until(lambda: find_guard(tab) is None, "the guard's end")


def is_waiting(pid: int) -> bool:
    """Whether it has used no time for a second: then its first look is over."""
    before = ticks_used(pid), sleeps(pid)
    time.sleep(1.0)
    return (ticks_used(pid), sleeps(pid)) == before
