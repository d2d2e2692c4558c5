"""Facts as the machine would tell them, for tests of liveness: one host, one process, one record."""

from __future__ import annotations

from typing import Any

from corral.model.claim import Claim, ClaimKind
from corral.model.process import HostFacts, ProbeFacts, ProcessIdentity, ProcessState
from corral.model.verdict import ClaimVerdict
from corral.sessions.decide.liveness import decide_liveness

BOOT, OTHER_BOOT = "boot-of-today", "boot-of-yesterday"
INITIAL_NS, CONTAINER_NS = 4026531836, 4026532999
BOOTED_AT = 1_000_000.0
WRITTEN_AT = 1_005_000.0
NOW = 1_010_000.0
PID, TICKS = 4711, 400_000
UID = 1000


def host(**changed: Any) -> HostFacts:
    facts: dict[str, Any] = {"hostname": "box", "boot_id": BOOT, "booted_at": BOOTED_AT, "now": NOW}
    facts |= {"pid_ns": INITIAL_NS, "pid_ns_is_initial": True, "uts_ns_is_initial": True, "uid": UID}
    return HostFacts(**(facts | changed))


def container(**changed: Any) -> HostFacts:
    """A host as seen from inside a container that has its own PIDs and its own name."""
    return host(**({"pid_ns": CONTAINER_NS, "pid_ns_is_initial": False, "uts_ns_is_initial": False} | changed))


def record(**changed: Any) -> Claim:
    """A runtime.json with the fields of v1 only."""
    fields: dict[str, Any] = {"kind": ClaimKind.RUNTIME, "provider": "kimi-cli", "home": "/h", "scope": "b"}
    fields |= {"session_id": "s1", "path": "/h/s1/runtime.json", "pid": PID, "written_at": WRITTEN_AT}
    fields |= {"hostname": "box", "owner_uid": UID, "work_dir": "/src/app"}
    return Claim(**(fields | changed))


def exact(**changed: Any) -> Claim:
    """A record whose writer gave its whole identity."""
    return record(**({"boot_id": BOOT, "pid_ns": INITIAL_NS, "start_ticks": TICKS} | changed))


def process(*, began: float = -10.0, **changed: Any) -> ProbeFacts:
    """A running process that began so many seconds after the record was written."""
    facts: dict[str, Any] = {"pid": PID, "state": ProcessState.RUNNING, "start_ticks": TICKS}
    facts |= {"started_at": WRITTEN_AT + began, "uid": UID, "pid_ns": INITIAL_NS, "names": ("sleep", "60")}
    return ProbeFacts(**(facts | changed))


def look_alike(*, began: float) -> ProbeFacts:
    """As above, with the claim's working directory and its program's name."""
    return process(began=began, cwd="/src/app", names=("kimi", "/usr/bin/kimi"), start_ticks=TICKS + 7)


def no_process(**changed: Any) -> ProbeFacts:
    return ProbeFacts(**({"pid": PID, "state": ProcessState.GONE} | changed))


def in_state(state: ProcessState, **changed: Any) -> ProbeFacts:
    return process(**({"state": state} | changed))


PIN = ProcessIdentity(BOOT, INITIAL_NS, PID, TICKS)


def judge(
    claim: Claim, probe: ProbeFacts | None, on: HostFacts | None = None, pin: ProcessIdentity | None = None
) -> ClaimVerdict:
    return decide_liveness(claim, probe, on or host(), pin)


def words(verdict: ClaimVerdict) -> str:
    """`stale(reused)`, and `elsewhere` after it where that is so."""
    name = "remote-host" if verdict.rule == "remote-host" else f"{verdict.liveness}({verdict.rule})"
    return f"{name} elsewhere" if verdict.elsewhere else name
