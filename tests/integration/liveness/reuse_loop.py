"""Reuse one PID thousands of times and judge old records by it; then judge living processes under load.

Runs as the first process of a private PID namespace with a name of its own, where no stranger can take the
number and where it may say which number comes next. Prints its counts as JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from typing import TextIO

from corral.machine.host import read_host_facts
from corral.machine.probe import Sent, probe_claim, send_signal
from corral.model.claim import Claim
from corral.model.process import ProcessIdentity
from corral.sessions.decide.liveness import decide_liveness
from tests.integration.liveness.machine import exact, record, words

TARGET = 5000
LIVING = 50
_SLEEP = shutil.which("sleep") or "/bin/sleep"


def main() -> None:
    reuses, checks = int(sys.argv[1]), int(sys.argv[2])
    result = {**_reuse(reuses), **_check_living(checks)}
    print(json.dumps(result))


def _reuse(count: int) -> dict[str, object]:
    aged, young, by_identity = Counter[str](), Counter[str](), Counter[str]()
    alive = same_tick = reached = 0
    with open("/proc/sys/kernel/ns_last_pid", "w") as last_pid:
        _spawn_at(last_pid, TARGET)
        before = exact(TARGET)
        for number in range(count):
            if number % 20 == 0:
                time.sleep(0.011)  # so that, however fast the machine, enough reuses fall into another tick
            _stop(TARGET)
            before_it = time.time()  # taken later, a pause of this very loop would date the records after its begin
            _spawn_at(last_pid, TARGET)
            os.kill(TARGET, 0)
            alive += 1
            aged[_judge(record(TARGET, written_at=before_it - 2.5))] += 1
            young[_judge(record(TARGET, written_at=before_it - 0.5))] += 1
            after = exact_here(TARGET)
            if after.start_ticks == before.start_ticks:
                same_tick += 1  # reused within one tick of 10 ms, which takes root and this very file
            else:
                by_identity[_judge(before)] += 1
                reached += isinstance(send_signal(_identity(before), 0), Sent)
            before = after
        _stop(TARGET)
    return {
        "alive_by_kill": alive,
        "aged": aged,
        "young": young,
        "by_identity": by_identity,
        "same_tick": same_tick,
        "signals_to_strangers": reached,
    }


def _check_living(count: int) -> dict[str, object]:
    """Two processes fork without pause while every record of fifty living ones is judged again and again."""
    living = [os.posix_spawn(_SLEEP, [_SLEEP, "300"], {}) for _ in range(LIVING)]
    load = [_fork_without_pause() for _ in range(2)]
    time.sleep(0.1)
    claims = [make(pid) for pid in living for make in (record, exact)]
    host = read_host_facts()
    verdicts = Counter[str]()
    for number in range(count):
        claim = claims[number % len(claims)]
        verdicts[words(decide_liveness(claim, probe_claim(claim), host, None))] += 1
    for pid in living + load:
        _stop(pid)
    return {"living": verdicts}


def exact_here(pid: int) -> Claim:
    """As `exact`, without reading the whole process table each time."""
    facts = probe_claim(record(pid))
    host = read_host_facts()
    return record(pid, boot_id=host.boot_id, pid_ns=facts.pid_ns, start_ticks=facts.start_ticks)


def _identity(claim: Claim) -> ProcessIdentity:
    assert claim.boot_id is not None and claim.pid_ns is not None and claim.start_ticks is not None
    return ProcessIdentity(claim.boot_id, claim.pid_ns, claim.pid, claim.start_ticks)


def _judge(claim: Claim) -> str:
    return words(decide_liveness(claim, probe_claim(claim), read_host_facts(), None))


def _spawn_at(last_pid: TextIO, wanted: int) -> None:
    """Start `sleep` with this very PID."""
    for _ in range(100):
        fcntl.flock(last_pid, fcntl.LOCK_EX)
        try:
            os.pwrite(last_pid.fileno(), str(wanted - 1).encode(), 0)
            pid = os.posix_spawn(_SLEEP, [_SLEEP, "300"], {})
        finally:
            fcntl.flock(last_pid, fcntl.LOCK_UN)
        if pid == wanted:
            return
        _stop(pid)
    raise AssertionError(f"pid {wanted} could not be had")


def _fork_without_pause() -> int:
    pid = os.fork()
    if pid:
        return pid
    while True:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
