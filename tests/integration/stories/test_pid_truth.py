"""Which process is meant: numbers pass to others, containers and hosts can't be seen, records are torn or forged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral import sidecar
from corral.sidecar.processes import read_identity
from tests.integration.terminals.held import is_gone, wait_until
from tests.integration.terminals.world import World


def start(world: World, session_id: str):
    window = world.program_on_terminal([str(world.program), "-w", str(world.work), "--session", session_id])
    window.wait_screen(f"session {session_id}")
    return window


def leave(world: World, session_id: str) -> Path:
    """A conversation with one turn whose process is gone; its runtime.json."""
    window = start(world, session_id)
    window.send("hello\r")
    window.wait_screen("hello\n")
    window.send("/quit\r")
    window.wait_exit()
    (path,) = world.root.glob(f".kimi/sessions/*/{session_id}/runtime.json")
    return path


def rewrite(path: Path, **changes: object) -> bytes:
    record = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in record.items() if value is not None}))
    return path.read_bytes()


REUSE = """
import json, os, signal, subprocess, sys, time
def corral(*words):
    return subprocess.run([sys.executable, "-m", "corral", *words], capture_output=True, text=True, timeout=60)
def start(session_id, pid=None):
    if pid is not None:
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(pid - 1))
    agent = subprocess.Popen([sys.argv[1], "-w", ".", "--session", session_id], stdin=-1, stdout=-1, text=True)
    assert agent.stdout.readline().split()[1] == session_id
    return agent
def states():
    found = json.loads(corral("ps", "--all", "--json").stdout)["sessions"]
    return {one["session_id"]: [one["state"], one["pids"]] for one in found}
old = start("old")
old.stdin.write("a turn\\n"); old.stdin.flush(); old.stdout.readline()
if "v1" in sys.argv:
    (path,) = [os.path.join(at, "runtime.json") for at, _, names in os.walk(os.environ["HOME"]) if "runtime.json" in names]
    record = {k: v for k, v in json.load(open(path)).items() if k not in ("boot_id", "start_ticks", "pid_ns")}
    record["started_at"] -= 5
    json.dump(record, open(path, "w"))
old.kill(); old.wait()
for _ in range(50):
    new = start("new", old.pid)
    if new.pid == old.pid:
        break
    new.kill(); new.wait()
kill = corral("kill", "old", "--yes")
print(json.dumps({"same": new.pid == old.pid, "pid": new.pid, "states": states(), "kill": [kill.returncode, kill.stderr],
                  "lives": new.poll() is None}))
new.kill()
"""


@pytest.mark.parametrize("kind", ["exact", "v1"])
def test_a_number_that_passed_to_another_agent_of_the_same_cli_is_dead_for_the_old_session(world, kind):
    """T16: with real reuse, in a namespace of its own; ending the old one reaches nobody."""
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", REUSE]
    done = subprocess.run(
        [*words, str(world.program), kind], env=world.env, cwd=world.work, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["same"] and found["lives"]
    assert found["states"]["new"] == ["live", [found["pid"]]]
    assert found["states"]["old"] == ["idle", []]  # no other agent is in that namespace
    assert found["kill"][0] == 1 and "nothing is signalled" in found["kill"][1]


def test_a_record_with_our_own_number_from_an_earlier_life_is_stale(tmp_path):
    """T17: this very process reads a record of the one that had its number before."""
    record = sidecar.write(tmp_path, session_id="s", work_dir="/w", cli="x", version="1")
    path = tmp_path / "runtime.json"
    assert isinstance(verdict := sidecar.check(path), sidecar.Verdict) and verdict.liveness == "live"
    for earlier in (
        {"start_ticks": (record.start_ticks or 0) - 100},
        {"start_ticks": None, "boot_id": None, "pid_ns": None, "started_at": time.time() - 3600 * 24},
    ):
        rewrite(path, **earlier)
        assert isinstance(verdict := sidecar.check(path), sidecar.Verdict) and verdict.liveness == "stale", verdict
        assert isinstance(sidecar.clear(path, best_effort=True), sidecar.Refusal)
        assert path.exists()
        rewrite(path, start_ticks=record.start_ticks, boot_id=record.boot_id, pid_ns=record.pid_ns)


INSIDE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""A container with the same home and the same host name: it sees none of the processes outside."""


def corral(world: World, prefix: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-m", "corral", *words],
        env=world.env,
        cwd=world.work,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("where", ["host", "namespace"])
def test_what_cannot_be_seen_from_here_is_never_swept_resumed_over_or_signalled(world, where):
    """T21, T22: a record of another host, or of outside the container; nobody but a person may remove it."""
    name = f"there-{where}"  # another worker's home may be in sight, and two of one name are ambiguous
    agent = start(world, name)
    agent.send("hello\r")
    agent.wait_screen("hello\n")
    (path,) = world.root.glob(f".kimi/sessions/*/{name}/runtime.json")
    before, prefix = path.read_bytes(), INSIDE
    if where == "host":
        before, prefix = (
            rewrite(path, hostname="another-host", boot_id="00000000-0000-4000-8000-000000000000", start_ticks=1),
            (),
        )
    shown = json.loads(corral(world, prefix, "show", name, "--json").stdout)["session"]
    assert (shown["state"], shown["pids"]) == ("elsewhere", [])
    refused = corral(world, prefix, "resume", name, "--print")
    assert refused.returncode == 1 and "claimed_elsewhere" in refused.stderr
    assert corral(world, prefix, "kill", name, "--yes").returncode == 1
    clear = ("sidecar", "clear", str(path), "--pid", str(agent.pid))
    assert corral(world, prefix, *clear).returncode == 1
    assert path.read_bytes() == before and agent.exit_code is None
    cleared = corral(world, prefix, *clear, "--unverified")
    assert cleared.returncode == 0, cleared
    assert not path.exists()


def test_an_agent_that_passed_to_another_parent_is_still_found(world):
    """T23: as inside a toolbox; the one that started it is gone."""
    words = [str(world.program), "-w", str(world.work), "--session", "adopted"]
    # What it says goes to a file: a pipe would break with the one that started it, and end the agent too.
    said = world.root / "said"
    script = (
        "import os, subprocess\nkept, end = os.pipe()\nos.set_inheritable(end, True)\n"
        f"subprocess.Popen({words!r}, stdin=kept, stdout=open({str(said)!r}, 'w'), stderr=-3, pass_fds=[end])\n"
    )
    subprocess.run([sys.executable, "-c", script], env=world.env, capture_output=True, timeout=60, check=True)
    wait_until(lambda: said.read_text().count("\n") > 0, "its first words")
    pid = int(said.read_text().split()[3])
    identity = read_identity(pid)
    assert identity is not None
    try:
        found = world.sessions()["adopted"]
        assert (found["state"], found["pids"]) == ("live", [pid])
    finally:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: is_gone(identity), "its end")


def test_torn_forged_and_future_records_are_told_and_hide_no_other(world):
    """T27: each with its reason, none of them believed, followed or waited for; the good one beside them is live."""
    good = start(world, "good")
    bad = {
        "link": lambda path: (path.unlink(), path.symlink_to(world.root / "elsewhere.json")),
        "huge": lambda path: path.write_bytes(b" " * (10 << 20) + path.read_bytes()),
        "truncated": lambda path: path.write_bytes(path.read_bytes()[:50]),
        "wrong-type": lambda path: rewrite(path, pid=str(good.pid)),
        "future": lambda path: rewrite(path, schema_version=2),
        "fifo": lambda path: (path.unlink(), os.mkfifo(path)),
    }
    for name, spoil in bad.items():
        path = leave(world, name)
        rewrite(path, pid=good.pid, start_ticks=None, boot_id=None, pid_ns=None, started_at=time.time())
        if name == "link":
            (world.root / "elsewhere.json").write_bytes(path.read_bytes())
        spoil(path)
    found = world.sessions()
    assert (found["good"]["state"], found["good"]["pids"]) == ("live", [good.pid])
    for name in bad:
        assert found[name]["state"] != "live" and found[name]["pids"] == [], name
        shown = world.json("show", name)["session"]
        assert [one["verdict"] for one in shown["evidence"]] == ["refused"] and shown["evidence"][0]["reason"], name
    assert {path.parent.name for path in world.root.glob(".kimi/sessions/*/*/runtime.json")} == {"good", *bad}


def test_a_step_that_fails_is_named_and_drops_no_live_row(world):
    """T28: a home that can't be listed, a journal that can't be read, a program that never says its version."""
    good = start(world, "good")
    world.program.write_text("#!/bin/sh\nexec sleep 600\n")
    journals = world.state / "journal" / "kimi-cli"
    journals.mkdir(parents=True)
    (journals / "1-1.json").mkdir()
    loop = world.root / "second home"
    loop.mkdir()
    (loop / "sessions").symlink_to("sessions")
    world.config.write_text(world.config.read_text() + f'[homes]\nkimi-cli = ["{loop}"]\n')
    listed = world.json("ps", "--all")
    found = {one["session_id"]: one["pids"] for one in listed["sessions"] if one["home"].startswith(str(world.root))}
    assert found["good"] == [good.pid]
    steps = {one["step"]: one["reason"] for one in listed["degraded"]}
    assert any(str(loop) in step for step in steps), steps
    assert any("1-1.json" in step for step in steps), steps
    assert all(steps.values())
