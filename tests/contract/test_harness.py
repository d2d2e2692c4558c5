"""The harness itself: each real CLI runs on a terminal, answers, leaves a session and no process behind."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from corral.machine.probe import probe
from corral.model.process import ProcessState
from tests.contract.agents import TOMBSTONE_NOTICE, write_tombstone
from tests.contract.driver import Driver
from tests.contract.model_calls import Kind
from tests.contract.model_server import ModelServer
from tests.contract.processes import is_running, read_proc


def test_a_prompt_reaches_the_model_and_a_terminal_that_ends_leaves_a_session_and_no_process(
    driver: Driver, model_server: ModelServer
) -> None:
    with driver.start() as agent:
        agent.wait_ready()
        answer = agent.prompt("hello from the harness")
        assert [call.prompt for call in model_server.requests if call.kind is Kind.TURN] == ["hello from the harness"]
        assert answer.billed == model_server.totals()[Kind.TURN]
        with_tool = agent.prompt("RUN:echo parent=$PPID")
        result = next(str(m["content"]) for m in reversed(with_tool.messages) if m["role"] == "tool")
        serving = read_proc(agent.serving_pid())
        assert serving is not None and f"parent={serving.pid}" in result
        call = agent.prompt_no_wait("SLOW600 please")
    assert not is_running(serving)
    assert model_server.wait_for(lambda c: c.number == call.number and c.done).killed
    assert len(driver.session_ids_on_disk()) == 1


def test_a_run_without_terminal_answers_on_stdout(driver: Driver, model_server: ModelServer) -> None:
    done = driver.print_run("hello without a terminal")
    assert done.returncode == 0, done.stderr
    assert "ANSWER 1 saw" in done.stdout


def test_the_tombstone_says_so_and_succeeds(tmp_path: Path) -> None:
    done = subprocess.run([write_tombstone(tmp_path), "--session", "x"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == TOMBSTONE_NOTICE


def test_a_process_has_ended_only_when_its_last_thread_has() -> None:
    """The first thread of a killed agent is gone before the others: until then corral rightly says that it lives."""
    script = (
        "import ctypes, os, sys, threading\n"
        "threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child:
        proc = read_proc(child.pid)
        assert proc is not None
        wait_until_ended(lambda: (now := read_proc(child.pid)) is not None and now.state == "Z")
        assert is_running(proc) and probe(child.pid, None).state is ProcessState.RUNNING
        assert child.stdin is not None
        child.stdin.close()
        wait_until_ended(lambda: not is_running(proc))
        assert probe(child.pid, None).state is ProcessState.ZOMBIE


def wait_until_ended(has_ended: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not has_ended():
        assert time.monotonic() < deadline
        time.sleep(0.01)
