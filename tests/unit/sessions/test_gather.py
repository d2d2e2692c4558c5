"""Gathering what a survey judges, beside processes that end meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any, cast

import pytest

from corral.machine.processes import Process, ProcessTable
from corral.model.process import Recognised
from corral.providers.asking import Asker
from corral.providers.contract import Provider
from corral.sessions.gather import _recognise_all


class Claiming:
    """A provider that calls one process its own."""

    name = "x"

    def __init__(self, pid: int, home: str | None) -> None:
        self._pid, self._home = pid, home

    def recognise(self, process: Process, _: Any) -> Recognised | None:
        if process.pid != self._pid or process.identity is None:
            return None
        return Recognised(provider="x", identity=process.identity, started_at=0.0, home=self._home, group=process.pid)


@pytest.mark.parametrize("reaped", [True, False])
@pytest.mark.parametrize(("home", "counts"), [(None, False), ("/home/x", True)])
def test_one_that_ended_before_its_home_was_read_raises_no_doubt(home: str | None, counts: bool, reaped: bool) -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        provider, table = cast(Provider, Claiming(child.pid, home)), ProcessTable()
        assert len(_recognise_all(Asker(), provider, table, table)) == 1
        found = table.find(child.pid)
        assert found is not None and not found.has_ended()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
        assert len(_recognise_all(Asker(), provider, table, table)) == counts
    finally:
        child.kill()
        child.wait()


def test_one_that_was_told_to_stop_is_known_as_such() -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        provider = cast(Provider, Claiming(child.pid, "/home/x"))
        for number, is_stopped in ((signal.SIGSTOP, True), (signal.SIGCONT, False)):
            child.send_signal(number)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WCONTINUED)
            (found,) = _recognise_all(Asker(), provider, table := ProcessTable(), table)
            assert found.is_stopped == is_stopped
    finally:
        child.kill()
        child.wait()
