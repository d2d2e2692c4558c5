"""The small liveness check: exact where a record has an identity, by time where not, and never a guess."""

import os
import time

import pytest

from corral.sidecar import processes
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.liveness import judge
from corral.sidecar.processes import INITIAL_PID_NS, INITIAL_UTS_NS, LinuxPlatform, Look, Platform
from corral.sidecar.record import RuntimeRecord

NOW = 1794770500.0
BOOT = "b007-1"
INNER = 4026532999


class Machine(LinuxPlatform):
    """A Linux whose answers are given by the test."""

    def __init__(
        self,
        look: Look,
        pid_ns: int | None = INITIAL_PID_NS,
        uts_ns: int = INITIAL_UTS_NS,
        first: Look | None = None,
        inner: bool = False,
        name: str = "devhost",
    ):
        super().__init__("/nonexistent")
        self._look, self._first, self._inner, self._name = look, first, inner, name
        self._namespaces = {"pid": pid_ns, "uts": uts_ns}

    def boot_id(self) -> str:
        return BOOT

    def hostname(self) -> str:
        return self._name

    def look(self, pid: int) -> Look:
        return self._first if pid == 1 and self._first else self._look

    def namespace(self, kind: str, pid: str = "self") -> int | None:
        return self._namespaces[kind]

    def has_inner(self, pid: int) -> bool:
        return self._inner


def running(
    start: float = NOW - 100, ticks: int = 500, state: str = processes.RUNNING, work_dir: str | None = None
) -> Look:
    return Look(state, ProcessIdentity(BOOT, INITIAL_PID_NS, 4711, ticks), start, work_dir)


def record(**changes: object) -> RuntimeRecord:
    plain = RuntimeRecord(pid=4711, session_id="s", work_dir="/w", hostname="devhost", started_at=NOW - 50)
    return plain._replace(**changes)


def exact(**changes: object) -> RuntimeRecord:
    return record(boot_id=BOOT, start_ticks=500, pid_ns=INITIAL_PID_NS)._replace(**changes)


GONE = Look(processes.GONE)
V1_CASES = {
    "began before": (record(), Machine(running()), "live", "time"),
    "same tick": (record(), Machine(running(NOW - 49.96)), "live", "time"),
    "too close": (record(), Machine(running(NOW - 49)), "unknown", "tolerance"),
    "reused": (record(), Machine(running(NOW - 40)), "stale", "reused"),
    "reused, but same directory": (
        record(),
        Machine(running(NOW - 40, work_dir="/w")),
        "unknown",
        "clock-step",
    ),
    "gone": (record(), Machine(GONE), "stale", "gone"),
    "gone, but a container has it": (record(), Machine(GONE, inner=True), "unknown", "inner-namespace"),
    "gone here, host's name shared": (record(), Machine(GONE, pid_ns=INNER), "unknown", "pid-namespace"),
    "gone here, own name": (record(), Machine(GONE, pid_ns=INNER, uts_ns=INNER), "stale", "gone"),
    "zombie": (record(), Machine(Look(processes.ZOMBIE)), "stale", "zombie"),
    "thread": (record(), Machine(Look(processes.THREAD)), "stale", "tid"),
    "hidden": (record(), Machine(Look(processes.HIDDEN)), "unknown", "hidden"),
    "kernel thread": (record(), Machine(running(state=processes.KERNEL)), "unknown", "foreign-namespace"),
    "init of the host": (record(pid=1), Machine(running()), "unknown", "foreign-namespace"),
    "init of a container": (record(pid=1), Machine(running(), pid_ns=INNER), "live", "time"),
    "future": (record(started_at=NOW + 3), Machine(running()), "unknown", "future"),
    "other host": (record(hostname="elsewhere"), Machine(running()), "remote-host", "host"),
    "letter case and dot": (record(hostname="DevHost."), Machine(running()), "live", "time"),
    "full name, live": (record(hostname="devhost.lan"), Machine(running()), "live", "time"),
    "full name, dead": (record(hostname="devhost.lan"), Machine(GONE), "unknown", "host-ambiguous"),
    "other boot": (record(boot_id="b007-0"), Machine(running()), "stale", "reboot"),
}
EXACT_CASES = {
    "same process": (exact(), Machine(running()), "live", "identity"),
    "same process, clock set back": (exact(started_at=NOW + 3600), Machine(running()), "live", "identity"),
    "same process, clock set on": (exact(started_at=NOW - 9e6), Machine(running()), "live", "identity"),
    "other process": (exact(), Machine(running(ticks=501)), "stale", "reused"),
    "gone": (exact(), Machine(GONE), "stale", "gone"),
    "zombie": (exact(), Machine(Look(processes.ZOMBIE)), "stale", "zombie"),
    "hidden": (exact(), Machine(Look(processes.HIDDEN)), "unknown", "hidden"),
    "no /proc": (exact(), Machine(Look(processes.HIDDEN), pid_ns=None), "unknown", "no-proc"),
    "other boot": (exact(boot_id="b007-0"), Machine(running()), "stale", "reboot"),
    "no boot id": (exact(boot_id=None), Machine(running()), "live", "time"),
    "other namespace": (exact(pid_ns=INNER), Machine(running()), "unknown", "foreign-namespace"),
    "other namespace, gone": (exact(pid_ns=INNER), Machine(GONE), "unknown", "foreign-namespace"),
    "container restarted": (
        exact(pid_ns=INNER),
        Machine(GONE, pid_ns=INNER + 1, uts_ns=INNER, first=running(NOW - 10)),
        "stale",
        "container-restarted",
    ),
    "container beside": (
        exact(pid_ns=INNER),
        Machine(GONE, pid_ns=INNER + 1, uts_ns=INNER, first=running(NOW - 100)),
        "unknown",
        "foreign-namespace",
    ),
    "other host": (exact(hostname="elsewhere"), Machine(running()), "remote-host", "host"),
}


@pytest.mark.parametrize(("said", "machine", "liveness", "rule"), V1_CASES.values(), ids=V1_CASES.keys())
def test_a_v1_record(said: RuntimeRecord, machine: Machine, liveness: str, rule: str):
    assert judge(said, machine, NOW)[:2] == (liveness, rule)


@pytest.mark.parametrize(("said", "machine", "liveness", "rule"), EXACT_CASES.values(), ids=EXACT_CASES.keys())
def test_a_record_with_identity(said: RuntimeRecord, machine: Machine, liveness: str, rule: str):
    assert judge(said, machine, NOW)[:2] == (liveness, rule)


def test_on_an_unknown_platform_only_a_free_pid_is_proof():
    class Elsewhere(Platform):
        def hostname(self) -> str:
            return "devhost"

    assert judge(record(pid=os.getppid()), Elsewhere(), NOW)[:2] == ("unknown", "hidden")
    assert judge(record(pid=os.getpid()), Elsewhere(), NOW)[:2] == ("live", "own-pid")
    assert judge(record(pid=4194304), Elsewhere(), NOW)[:2] == ("stale", "gone")


def test_this_very_process_by_v1_alone():
    name = os.uname().nodename
    alive = judge(record(pid=os.getpid(), hostname=name, started_at=time.time()))
    assert alive.liveness == "live" and alive.identity == processes.own_identity()
