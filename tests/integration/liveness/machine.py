"""Real processes for tests of liveness: started here, looked at by the real code, stopped by their PID."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import corral.machine.host
from corral.machine.host import read_host_facts
from corral.machine.probe import probe_claim
from corral.machine.processes import ProcessTable
from corral.model.claim import Claim, ClaimKind
from corral.model.process import ProcessIdentity
from corral.model.verdict import ClaimVerdict
from corral.sessions.decide.liveness import decide_liveness

NOBODY = 65534
TIMEOUT_S = 60
_PACKAGES = {"unshare": "util-linux", "mount": "mount", "umount": "mount", "sleep": "coreutils", "cc": "gcc"}
_SOURCES = str(Path(corral.machine.host.__file__).parents[2])
_CHECKOUT = str(Path(__file__).parents[3])


class Question(msgspec.Struct):
    """A claim to be judged somewhere else, with what was pinned for it."""

    claim: Claim
    pin: ProcessIdentity | None = None
    written_there: bool = False
    """By the one who judges it: for a process that begins only after the question is put."""


class Answer(msgspec.Struct):
    """What was judged there."""

    verdict: str
    reason: str
    identity: ProcessIdentity | None


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.fail("this test makes namespaces and other users' processes: run it as root")


def need(tool: str) -> str:
    """The path of a program; a missing one fails by name, nothing is skipped."""
    path = shutil.which(tool)
    if path is None:
        pytest.fail(f"{tool} is missing: install the package {_PACKAGES.get(tool, tool)}")
    return path


def words(verdict: ClaimVerdict) -> str:
    name = "remote-host" if verdict.rule == "remote-host" else f"{verdict.liveness}({verdict.rule})"
    return f"{name} elsewhere" if verdict.elsewhere else name


def record(pid: int, written_at: float | None = None, **changed: Any) -> Claim:
    """A runtime.json of v1, written now on this host by us."""
    fields: dict[str, Any] = {"kind": ClaimKind.RUNTIME, "provider": "kimi-cli", "home": "/h", "scope": None}
    fields |= {"session_id": "s1", "path": "/h/s1", "pid": pid, "hostname": os.uname().nodename}
    fields |= {"written_at": time.time() if written_at is None else written_at, "owner_uid": os.geteuid()}
    return Claim(**(fields | changed))


def exact(pid: int, **changed: Any) -> Claim:
    """The same, with the identity of the process that has the PID now."""
    identity = identity_of(pid)
    known = {"boot_id": identity.boot_id, "pid_ns": identity.pid_ns, "start_ticks": identity.start_ticks}
    return record(pid, **(known | changed))


def identity_of(pid: int) -> ProcessIdentity:
    process = ProcessTable().find(pid)
    assert process is not None and process.identity is not None
    return process.identity


def judge(claim: Claim, pin: ProcessIdentity | None = None) -> str:
    return words(decide_liveness(claim, probe_claim(claim), read_host_facts(), pin))


@contextmanager
def running(*command: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours (`sleep` if none is named), ended and reaped at the end."""
    child = subprocess.Popen(command or (need("sleep"), "300"), **options)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait(TIMEOUT_S)
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def wait_until(true: Any, what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited for: {what}")
        time.sleep(0.005)


def environment(**added: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{_SOURCES}:{_CHECKOUT}", **added}


def judge_within(
    namespaces: Sequence[str],
    questions: Sequence[Question | Claim],
    *,
    setup: str = "true",
    uid: int | None = None,
    variables: dict[str, str] | None = None,
) -> list[str]:
    """What the same code says in fresh namespaces, after a setup in the shell, perhaps as another user."""
    need_root()
    script = f'set -e; {setup}; "$0" -m tests.integration.liveness.judge_records "$1"; true'
    command = [*namespaces, need("sh"), "-c", script, sys.executable, "" if uid is None else str(uid)]
    asked = [item if isinstance(item, Question) else Question(item) for item in questions]
    done = subprocess.run(
        command,
        input=msgspec.json.encode(asked),
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
        env=environment(**(variables or {})),
        check=True,
    )
    return [answer.verdict for answer in msgspec.json.decode(done.stdout, type=list[Answer])]


def unshare(*options: str) -> list[str]:
    return [need("unshare"), *options]
