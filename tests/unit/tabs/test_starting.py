"""One start per session: who comes while a start is on its way is refused, and who comes after it died waits for its end."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.machine.procfs import read_stat
from corral.model.key import SessionKey
from corral.model.refusal import RefusedError
from corral.model.restore import Refusal
from corral.sidecar.processes import own_identity
from corral.state.launches import Launch, Launches
from corral.tabs.start import Starting


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launches:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    return Launches(str(tmp_path / "state"))


@pytest.fixture
def key(tmp_path: Path) -> SessionKey:
    return SessionKey("kimi-code", str(tmp_path / "home"), "", "session_1")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "600"])
    yield child
    child.kill()
    child.wait()


def test_one_that_died_is_waited_for_until_its_guard_has_noticed(launches, key, child):
    record(launches, key, child.pid)
    held = launches.lock_session(key)
    assert held is not None
    child.kill()
    child.wait()
    threading.Timer(0.5, os.close, [held]).start()
    with start(key):
        assert launches.lock_session(key) is None


def test_one_that_lives_is_not_waited_for(launches, key, child):
    record(launches, key, child.pid)
    held = launches.lock_session(key)
    assert held is not None
    require_refused(key)
    os.close(held)


def test_nor_is_one_of_which_nothing_is_on_record_yet(launches, key):
    held = launches.lock_session(key)
    assert held is not None
    require_refused(key)
    os.close(held)


def start(key: SessionKey) -> Starting:
    return Starting(key, "it is not resumed", agree=lambda question: False, report=print)


def require_refused(key: SessionKey) -> None:
    with pytest.raises(RefusedError) as raised, start(key):
        pass
    assert raised.value.refused.reason is Refusal.ALREADY_LIVE


def record(launches: Launches, key: SessionKey, pid: int) -> None:
    me, stat = own_identity(), read_stat(pid)
    assert me is not None and stat is not None
    identity = (me.boot_id, me.pid_ns, pid, stat.start_ticks)
    launches.write(Launch(key=key, identity=identity, launched_at=time.time(), argv=("sleep",), cwd="/"))
