"""A holder that does not answer: every wait for it ends, says which process it is, and signals nothing."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from corral.errors import Silent
from corral.terminals import client as silence
from corral.terminals.client import Client, connect
from corral.terminals.files import TerminalFiles, identity_of
from corral.terminals.start import new_tab_id
from tests.integration.terminals.held import BASH, wait_until


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), "the stop")


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_attach_says_that_the_holder_is_stopped_and_leaves_it_so(world):
    tab = world.run_detached()
    holder = world.tab(tab)["holder_pid"]
    stop(holder)
    window = world.on_terminal("attach", tab)
    assert window.wait_exit() == 1
    assert f"its holder, pid {holder}, is stopped" in window.screen()
    assert f"kill -CONT {holder}" in window.screen()
    assert is_stopped(holder)
    os.kill(holder, signal.SIGCONT)
    again = world.on_terminal("attach", tab)
    again.wait_screen("session ")


def test_what_is_typed_into_a_terminal_whose_holder_stopped_ends_with_a_message(world):
    tab = world.run_detached()
    window = world.on_terminal("attach", tab)
    window.wait_screen("session ")
    holder = world.tab(tab)["holder_pid"]
    stop(holder)
    window.send("is anybody there?")
    assert window.wait_exit() == 1
    assert f"its holder, pid {holder}, is stopped" in window.screen()


def test_the_other_commands_do_not_wait_for_a_stopped_holder(world):
    tab = world.run_detached()
    found = world.tab(tab)
    stop(found["holder_pid"])
    assert found["session"]["session_id"][:8] in world.corral("terminals").stdout
    done = world.corral("kill", found["session"]["session_id"], "--yes")
    assert done.returncode == 0, done
    assert "ended after SIGHUP" in done.stdout
    assert is_stopped(found["holder_pid"])


def test_a_question_to_a_holder_that_stopped_is_not_waited_for(held):
    started = held.start(BASH)
    with Client(held.directory, started.tab) as client:
        stop(started.holder.pid)
        with pytest.raises(Silent, match=f"pid {started.holder.pid}, is stopped"):
            client.ask()


def test_input_that_a_stopped_holder_does_not_take_is_not_waited_for(held, monkeypatch):
    monkeypatch.setattr("corral.terminals.client.ANSWER_SECONDS", 1.0)
    started = held.start(BASH)
    with Client(held.directory, started.tab) as client:
        stop(started.holder.pid)
        with pytest.raises(Silent, match="is stopped"):
            client.type(b"x" * (4 << 20))


def test_the_door_of_a_stopped_holder_is_not_waited_at(held):
    started = held.start(BASH)
    stop(started.holder.pid)
    waiting: list[socket.socket] = []
    try:
        with pytest.raises(Silent, match="is stopped"):
            for _ in range(100):  # more than can wait to be let in
                waiting.append(connect(held.directory, started.tab))
    finally:
        for one in waiting:
            one.close()
    assert 1 < len(waiting) < 100


def test_a_holder_that_runs_and_says_nothing_is_named_too(tmp_path, monkeypatch):
    """This process takes the place of a holder that is held up by something else than a stop."""
    monkeypatch.setattr(silence, "ANSWER_SECONDS", 0.5)
    tab, directory = new_tab_id(), str(tmp_path / "terminals")
    files = TerminalFiles(directory, tab)
    with files.listen():
        files.write_record(identity_of(os.getpid()), 1)
        with pytest.raises(Silent, match=f"pid {os.getpid()}, has not answered") as told:
            Client(directory, tab)
    assert "try again" in told.value.remedy
