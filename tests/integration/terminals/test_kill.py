"""corral kill: the verified process only, one signal after the other, and never on doubt."""

from __future__ import annotations

import signal

import pytest

from corral.errors import CorralError
from corral.sidecar.processes import read_identity
from corral.tabs.kill import kill_process
from tests.integration.terminals.held import is_gone, wait_until
from tests.integration.terminals.world import start_agent
from tests.integration.top.lab import Lab


def test_kill_ends_the_agent_and_says_how(world):
    tab = world.run_detached()
    found = world.tab(tab)
    identity = world.identity(found["pid"])
    done = world.corral("kill", found["session"]["session_id"], "--yes")
    assert done.returncode == 0, done
    assert "ended after SIGHUP" in done.stdout
    assert is_gone(identity)
    wait_until(lambda: world.tab(tab)["status"] == -signal.SIGHUP, "its status")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_kill_asks(world, answer, code):
    agent = start_agent(world)
    window = world.on_terminal("kill", "in-a-window")
    window.wait_screen("[y/N]")
    assert str(agent.pid) in window.screen()
    window.send(answer + "\r")
    assert window.wait_exit() == code
    assert (agent.exit_code is None) == (answer == "n")


def test_kill_goes_on_to_the_next_signal(world):
    stubborn = world.root / "stubborn"
    stubborn.write_text(f"#!/bin/sh\ntrap '' HUP TERM\nexec {world.program} \"$@\"\n")
    stubborn.chmod(0o755)
    window = world.program_on_terminal([str(stubborn), "-w", str(world.work), "--session", "stubborn-one"])
    window.wait_screen("session ")
    done = world.corral("kill", "stubborn-one", "--yes")
    assert "ended after SIGKILL" in done.stdout, done
    assert window.wait_exit() == -9


def test_kill_refuses_what_is_not_verified_live(world):
    agent = start_agent(world)
    agent.send("hello\r")
    agent.wait_screen("hello\n")
    agent.kill()
    agent.wait_exit()
    done = world.corral("kill", "in-a-window", "--yes")
    assert done.returncode == 1
    assert "nothing is signalled" in done.stderr


def test_a_dry_run_says_what_would_be_ended_and_why_and_ends_nothing(world):
    agent = start_agent(world)
    done = world.corral("kill", "in-a-window", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"pid {agent.pid}" in done.stdout and "is verified" in done.stdout
    assert agent.exit_code is None
    assert world.corral("kill", "no-such-one", "--dry-run").returncode == 4


def test_kill_refuses_when_the_number_is_another_process_now(world):
    agent = start_agent(world)
    identity = read_identity(agent.pid)
    assert identity is not None
    told: list[str] = []
    other = identity._replace(start_ticks=identity.start_ticks - 1)
    with pytest.raises(CorralError, match="another process now"):
        kill_process(other, told.append)
    assert told == []
    assert agent.exit_code is None


def test_kill_refuses_a_process_that_serves_other_sessions_too(world):
    lab = Lab(world)
    try:
        server = lab.start("one", "two")
        done = world.corral("kill", "one", "--yes")
        assert done.returncode == 1
        assert "serves other sessions too" in done.stderr and "/two)" in done.stderr
        assert server.process.poll() is None
    finally:
        lab.end()
