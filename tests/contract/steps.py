"""The steps that scenarios share: runs beside, resumes on a terminal, kills, and whose session a text is in."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.contract.corral_cli import COMMAND
from tests.contract.driver import PRINT_SECONDS, Driver
from tests.contract.processes import Proc, is_running, read_proc
from tests.contract.terminal import Terminal
from tests.contract.tui import Tui


class PrintRun:
    """A run without a terminal, beside whatever else happens."""

    def __init__(self, driver: Driver, text: str) -> None:
        import threading

        self._thread = threading.Thread(target=driver.print_run, args=(text,))
        self._thread.start()

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        self._thread.join(PRINT_SECONDS + 60)
        assert not self._thread.is_alive()


def corral_terminal(driver: Driver, *words: str, cwd: Path | None = None) -> Terminal:
    return Terminal([*COMMAND, *words], cwd=cwd or driver.home.work_dir, env=driver.home.env)


def resume(driver: Driver, session_id: str, *options: str, cwd: Path | None = None) -> Tui:
    """The agent that `corral resume` becomes."""
    return driver.on(corral_terminal(driver, "resume", session_id, *options, cwd=cwd))


def wait_dead(proc: Proc, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while is_running(proc):
        assert time.monotonic() < deadline, f"pid {proc.pid} still runs"
        time.sleep(0.01)


def kill_serving(agent: Tui, number: signal.Signals) -> None:
    """Sends a signal to the process that holds the conversation, and waits until it is dead."""
    serving = read_proc(agent.serving_pid())
    assert serving is not None
    os.kill(serving.pid, number)
    wait_dead(serving)


def find_session(driver: Driver, text: str) -> str:
    """The one session in whose files the CLI wrote this text: the test's own truth, from the provider's disk."""
    needle = text.encode()
    found = {
        session_id
        for session_id in driver.session_ids_on_disk()
        for path in driver.home.data.rglob("*.jsonl")
        if session_id in str(path) and "index" not in path.name and needle in path.read_bytes()
    }
    assert len(found) == 1, f"{text!r} is in {found}"
    return found.pop()
