"""Whose a process is, with real ones: children once, nested agents, lost parents, shared servers, those that end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from msgspec import structs

from corral.top.meter import list_seen, read_use
from tests.integration.terminals.held import wait_until
from tests.integration.top.lab import AGENT, SUBREAPER, Lab


def test_children_that_ended_are_in_it_once_and_living_ones_too(lab: Lab):
    agent = lab.start("burner")
    child = agent.left("start()")
    before = agent.ask("burn(0.3)")
    uses = lab.top()["sessions"]["burner"]
    after = agent.ask("rusage()")
    living = _cpu_seconds(child)
    assert before["children"] > 0.3
    assert set(uses["pids"]) == {agent.pid, child}
    # The kernel's own figures, before and after; its four figures in /proc are each cut to ticks of 10 ms.
    assert before["own"] + before["children"] - 0.05 <= uses["cpu_seconds"]
    assert uses["cpu_seconds"] <= after["own"] + after["children"] + living + 0.05
    assert uses["processes"] == 2 and uses["memory_kind"] == "pss" and uses["memory_bytes"] > 1_000_000


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def test_a_nested_agent_has_what_is_below_it_and_the_outer_one_has_not(lab: Lab):
    outer = lab.start("outer")
    child = outer.left("start()")
    inner, grandchild = outer.ask("nest('inner')")
    look = lab.top()
    assert lab.pids(look) == {"outer": {outer.pid, child}, "inner": {inner, grandchild}}
    assert look["shared"] == look["unattributed"] == []


@pytest.mark.parametrize("parent", ["init", "subreaper"])
def test_a_child_that_lost_its_parent_is_known_by_its_process_group(lab: Lab, parent):
    around = [sys.executable, "-c", SUBREAPER] if parent == "subreaper" else []
    agent = lab.start("leader", around=around)
    orphan = agent.left("leave()")
    uses = lab.top()["sessions"]["leader"]
    assert set(uses["pids"]) == {agent.pid, orphan}
    assert uses["adopted"] == [{"pid": orphan, "grounds": "group"}]


def test_a_child_that_may_be_of_the_outer_or_the_nested_agent_is_counted_for_neither(lab: Lab):
    outer = lab.start("outer")
    inner, grandchild = outer.ask("nest('inner')")
    orphan = outer.left("leave()")
    look = lab.top()
    assert lab.pids(look) == {"outer": {outer.pid}, "inner": {inner, grandchild}}
    (stray,) = look["unattributed"]
    assert stray["pid"] == orphan and stray["uses"]["pids"] == [orphan]
    assert [one["session_id"] for one in stray["maybe"]] == ["inner", "outer"]


def test_a_child_in_a_session_of_its_own_is_known_by_the_terminal_in_its_environment(lab: Lab):
    """A real tab; the holder, which started the agent, is nobody's."""
    program = lab.world.program
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {AGENT} --do "leave(new_session=True)" "$@"\n')
    tab = lab.world.run_detached()
    agent = lab.world.tab(tab)
    session = agent["session"]["session_id"]
    looks = []

    def has_left() -> bool:  # it says which session it has before it starts the child and leaves it
        looks[:] = [lab.top()]
        uses = looks[0]["sessions"][session]
        return bool(uses["adopted"]) and uses["processes"] == 2

    wait_until(has_left, "the child that has lost its parent", 60)
    (look,) = looks
    uses = look["sessions"][session]
    (adopted,) = uses["adopted"]
    lab.remember(adopted["pid"])
    assert adopted["grounds"] == "tab"
    assert set(uses["pids"]) == {agent["pid"], adopted["pid"]}
    assert look["unattributed"] == []


def test_what_shares_only_a_shell_with_the_agent_is_listed_and_counted_for_none(lab: Lab):
    """The shell and its other job have nothing to do with it; a process that lost its parent may."""
    script = f"{sys.executable} -c 'import signal; signal.alarm(300); signal.pause()' & \"$@\"; wait"
    agent = lab.start("guest", around=["sh", "-c", script, "sh"])
    orphan = agent.left("leave()")
    look = lab.top()
    assert lab.pids(look) == {"guest": {agent.pid}}
    (stray,) = look["unattributed"]
    assert (stray["pid"], stray["uses"]["processes"]) == (orphan, 1)
    assert [one["session_id"] for one in stray["maybe"]] == ["guest"]
    assert stray["reason"] == f"its process group is that of pid {agent.process.pid} (sh), which belongs to no session"
    table = lab.world.corral("top").stdout
    assert f"? pid {orphan} " in table and "counted for no session" in table


def test_a_process_that_serves_two_sessions_is_charged_to_none(lab: Lab):
    server = lab.start("one", "two")
    child = server.left("start()")
    lone = lab.start("lone")
    look = lab.top()
    (shared,) = look["shared"]
    assert shared["pid"] == server.pid and set(shared["uses"]["pids"]) == {server.pid, child}
    assert {one["session_id"] for one in shared["sessions"]} == {"one", "two"}
    assert shared["uses"]["cpu_seconds"] > 0
    for name in ("one", "two"):
        uses = look["sessions"][name]
        assert (uses["cpu_seconds"], uses["processes"], uses["pids"]) == (None, None, [])
        assert f"pid {server.pid} serves 2 sessions" in uses["reason"]
    assert look["sessions"]["lone"]["pids"] == [lone.pid]


def test_a_session_elsewhere_is_not_metered(lab: Lab):
    lab.start("away")
    (path,) = lab.world.root.glob(".kimi/sessions/*/away/runtime.json")
    record = {**json.loads(path.read_text()), "hostname": "another-host", "boot_id": "0" * 36}
    path.write_text(json.dumps(record))
    uses = lab.top()["sessions"]["away"]
    assert (uses["cpu_seconds"], uses["memory_bytes"]) == (None, None)
    assert "another-host" in uses["reason"]
    assert "uses  unknown: it can't be checked from here" in lab.world.corral("show", "away").stdout


def test_a_process_that_ends_meanwhile_is_left_out_and_so_is_who_gets_its_number():
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.alarm(60); signal.pause()"])
    try:
        seen = list_seen("X")
        found = read_use(seen[child.pid], seen)
        assert found is not None and found.memory_bytes > 0
        earlier = structs.replace(seen[child.pid], start_ticks=seen[child.pid].start_ticks - 1)
        assert read_use(earlier, seen) is None
    finally:
        child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = read_use(seen[child.pid], seen)
    assert zombie is not None
    assert (zombie.processes, zombie.memory_bytes, zombie.memory_kind) == (1, 0, None)
    child.wait()
    assert read_use(seen[child.pid], seen) is None


HIDDEN = """
import ctypes, os, subprocess, sys
from corral.top.meter import list_seen, read_use
subprocess.run(["mount", "-o", "remount,hidepid=2", "/proc"], check=True)
subprocess.Popen([sys.executable, "-c", "import signal; signal.alarm(60); signal.pause()"])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
assert ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0  # PR_SET_DUMPABLE: as if it had always been this user
seen = list_seen("X")
print(len(seen), read_use(seen[os.getpid()], seen).unreadable)
"""


def test_children_that_may_not_be_seen_are_counted_as_such():
    """Of another user, and /proc is mounted with hidepid."""
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", HIDDEN]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout == "1 1\n", done.stderr


def test_show_says_what_the_session_uses_and_nothing_of_one_that_ended(lab: Lab):
    agent = lab.start("shown")
    agent.left("start()")
    shown = lab.world.corral("show", "shown").stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("        uses  ")]
    assert line.startswith("        uses  2 processes, ") and line.endswith("MB (PSS)")
    uses = lab.world.json("show", "shown")["uses"]
    assert (uses["processes"], uses["reason"]) == (2, None)
    os.kill(agent.pid, signal.SIGKILL)
    agent.process.wait(60)
    wait_until(lambda: "uses" not in lab.world.corral("show", "shown").stdout, "an answer without figures")
    assert lab.world.json("show", "shown")["uses"] is None
