"""What a silent agent of either Kimi could have open: its directory where that is shown, else its whole home."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.machine.processes import ProcessTable, identify
from corral.model.process import WHOLE_HOME, Reach
from corral.providers.kimi_cli import own_log
from corral.providers.registry import find_provider

# Says "ready" when it has done what its words ask for.
AGENT = """
import socket, sys
if "listen" in sys.argv:
    listening = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
sys.stdin.read()
"""
NOBODY = 65534

Ask = Callable[..., Reach]


@pytest.fixture(params=["kimi-cli", "kimi-code"])
def find_reach(request, tmp_path: Path, monkeypatch, running: list[subprocess.Popen[bytes]]) -> Iterator[Ask]:
    """The reach of a process that runs in a directory of the test's own, past its first minute."""
    monkeypatch.setattr(own_log, "_STARTING_S", 0.0)
    terminals: list[int] = []

    def start(*words: str, on_terminal: bool = True, as_user: int | None = None) -> Reach:
        ours, its = os.openpty()
        terminals.extend((ours, its))
        agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, *words],
            stdin=its if on_terminal else subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=tmp_path,
        )
        running.append(agent)
        assert agent.stdout is not None and agent.stdout.readline() == b"ready\n"
        before = os.geteuid()
        os.seteuid(before if as_user is None else as_user)
        try:
            process = ProcessTable().find(agent.pid)
            assert process is not None
            return find_provider(request.param).find_reach(process, str(tmp_path / "home"))
        finally:
            os.seteuid(before)

    yield start
    for one in terminals:
        os.close(one)


def test_on_a_terminal_it_is_the_directory_that_it_works_in(find_reach: Ask, tmp_path: Path) -> None:
    assert find_reach().directories == (identify(str(tmp_path)),)


def test_without_a_terminal_it_may_be_a_server_that_opens_any(find_reach: Ask) -> None:
    assert find_reach(on_terminal=False) == WHOLE_HOME


def test_one_that_listens_is_a_server_also_on_a_terminal(find_reach: Ask) -> None:
    assert find_reach("listen") == WHOLE_HOME


def test_where_its_directory_can_not_be_read_it_is_the_whole_home(find_reach: Ask) -> None:
    if os.geteuid() != 0:
        pytest.fail("this test looks as another user: run it as root")
    assert find_reach(as_user=NOBODY) == WHOLE_HOME


@pytest.mark.parametrize("find_reach", ["kimi-cli"], indirect=True)
def test_in_its_first_minute_its_directory_may_not_be_its_session_s_yet(find_reach: Ask, monkeypatch) -> None:
    """kimi-cli 1.51.0 goes where `-w` says while it starts (2026-11)."""
    monkeypatch.setattr(own_log, "_STARTING_S", 60.0)
    assert find_reach() == WHOLE_HOME
