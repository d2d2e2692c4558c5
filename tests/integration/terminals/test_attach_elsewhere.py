"""corral attach to agents in a person's own terminals: named there, or shown in their tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.integration.terminals.held import wait_until
from tests.integration.terminals.world import start_agent


def test_an_agent_in_a_foreign_terminal_is_named_and_not_opened_twice(world):
    window = start_agent(world)
    done = world.corral("attach", "in-a-window")
    assert done.returncode == 1
    assert f"pid {window.pid}" in done.stderr
    assert os.readlink(f"/proc/{window.pid}/fd/0") in done.stderr
    assert "never opened a second time" in done.stderr


@pytest.fixture
def tmux(world):
    """A tmux server of the test's own."""
    if shutil.which("tmux") is None:
        pytest.fail("tmux is needed: install the package tmux")
    (world.root / "t").mkdir()
    sockets: list[str] = []

    def call(*words: str, server: str = "default") -> str:
        sockets.append(server)
        return subprocess.run(
            ["tmux", "-L", server, "-f", "/dev/null", *words], env=world.env, check=True, capture_output=True, text=True, timeout=60,
        ).stdout.strip()  # fmt: skip

    yield call
    for server in set(sockets):
        subprocess.run(
            ["tmux", "-L", server, "kill-server"], env=world.env, check=False, capture_output=True, timeout=60
        )


def agent_in_tmux(world, tmux, session: str = "in-tmux", server: str = "default") -> None:
    # Several panes, and the agent below a shell: only its ancestry tells which one it is in.
    tmux("new-session", "-d", "-s", "work", "-x", "90", "-y", "25", "sh", server=server)
    tmux("new-window", "-t", "work", "sh", server=server)
    pane = tmux("split-window", "-t", "work", "-P", "-F", "#{pane_id}", "sh", server=server)
    tmux("send-keys", "-t", pane, f"{world.program} -w {world.work} --session {session}", "Enter", server=server)
    tmux("select-window", "-t", "work:0", server=server)
    wait_until(lambda: world.sessions().get(session, {}).get("state") == "live", "the agent in tmux")


def test_an_agent_in_tmux_is_attached_there(world, tmux):
    agent_in_tmux(world, tmux)
    window = world.on_terminal("attach", "in-tmux")
    window.wait_screen("session in-tmux")
    window.send("hello from outside\r")
    window.wait_screen("hello from outside")
    assert tmux("display-message", "-p", "#{window_index}.#{pane_index}") == "1.1"
    window.send("\x02d")
    window.wait_exit()


def test_inside_tmux_the_client_is_switched_there(world, tmux):
    agent_in_tmux(world, tmux)
    tmux("new-session", "-d", "-s", "other", "-x", "90", "-y", "25", "sh")
    window = world.program_on_terminal(["tmux", "attach-session", "-t", "other"], columns=90, lines=25)
    window.wait_screen("other")
    window.send(f"cd {world.work}; {sys.executable} -m corral attach in-tmux\r")
    window.wait_screen("session in-tmux")
    assert tmux("list-clients", "-F", "#{session_name}") == "work"


def test_an_agent_in_another_tmux_server_is_named_from_within_tmux(world, tmux):
    agent_in_tmux(world, tmux, server="second")
    done = world.corral("attach", "in-tmux", TMUX=str(world.root / "t" / f"tmux-{os.getuid()}" / "default") + ",1,0")
    assert done.returncode == 1
    assert "another tmux server" in done.stderr


def test_in_a_tmux_that_nobody_is_attached_to_the_way_there_is_told(world, tmux):
    agent_in_tmux(world, tmux)
    tmux("new-session", "-d", "-s", "script", "-x", "90", "-y", "25", "sh")
    command = f"cd {world.work}; {sys.executable} -m corral attach in-tmux; echo left $?"
    tmux("send-keys", "-t", "script", command, "Enter")
    wait_until(lambda: "left 1" in tmux("capture-pane", "-p", "-J", "-t", "script"), "its end")
    shown = tmux("capture-pane", "-p", "-J", "-t", "script")
    assert "nobody is attached" in shown
    assert "no current client" not in shown
    assert_shows_the_agent(world, shown)


def test_without_a_terminal_the_way_into_tmux_is_told(world, tmux):
    agent_in_tmux(world, tmux)
    done = world.corral("attach", "in-tmux")
    assert done.returncode == 1
    assert "no terminal here" in done.stderr
    assert_shows_the_agent(world, done.stderr)


def assert_shows_the_agent(world, told: str) -> None:
    """The command in the message does what it says, as it stands there."""
    (hint,) = [line for line in told.splitlines() if line.startswith("  in a terminal")]
    window = world.program_on_terminal(["/bin/sh", "-c", hint.partition(": ")[2]], columns=90, lines=25)
    window.wait_screen("session in-tmux")
    window.send("\x02d")
    window.wait_exit()
