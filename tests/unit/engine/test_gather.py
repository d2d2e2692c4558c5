"""Gathering what a survey judges, beside processes that end meanwhile."""

from __future__ import annotations

import os
import subprocess
from typing import Any, cast

import pytest

from corral.engine.gather import _recognise_all
from corral.model.process import Recognised
from corral.providers import Provider
from corral.system.processes import Process, ProcessTable


class Claiming:
    """A provider that calls one process its own."""

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
        assert len(_recognise_all(provider, table, table)) == 1
        found = table.find(child.pid)
        assert found is not None and not found.has_ended()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
        assert len(_recognise_all(provider, table, table)) == counts
    finally:
        child.kill()
        child.wait()
