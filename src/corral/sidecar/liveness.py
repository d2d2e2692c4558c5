"""Is the process that a record names still that one? The small check before a writer touches it."""

from __future__ import annotations

import os
import time

from corral.sidecar import processes
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light import NamedTuple
from corral.sidecar.processes import INITIAL_PID_NS, INITIAL_UTS_NS, LinuxPlatform, Look, Platform
from corral.sidecar.record import RuntimeRecord

LIVE = "live"
STALE = "stale"
"""Proven dead."""
REMOTE = "remote-host"
UNKNOWN = "unknown"
"""Not proven alive and not proven dead: a writer must treat it as alive."""

_CLOCK_ERROR = 0.05
"""Seconds by which a process may seem to begin after its record: start times are good to one tick."""
_CLOCK_DOUBT = 2.0
"""A process that began later than this after the record, in seconds, is another one."""


class Verdict(NamedTuple):
    """What is true of a record now. `rule` is for machines, `reason` is a sentence."""

    liveness: str
    rule: str
    reason: str
    identity: ProcessIdentity | None = None
    """Of a live record: the process it was verified against."""


def judge(record: RuntimeRecord, platform: Platform | None = None, now: float | None = None) -> Verdict:
    """Compare a record with the process that has its PID now. Death needs positive proof."""
    platform = platform or processes.find_platform()
    if not _same_host(record.hostname, platform.hostname()):
        return Verdict(REMOTE, "host", f"It was written on {record.hostname}; this is {platform.hostname()}.")
    verdict = _judge_exactly(record, platform) or _judge_by_time(record, platform, now)
    if verdict.liveness == STALE and _folded(record.hostname) != _folded(platform.hostname()):
        return Verdict(UNKNOWN, "host-ambiguous", f"{record.hostname} may be another host than this one.")
    return verdict


def _judge_exactly(record: RuntimeRecord, platform: Platform) -> Verdict | None:
    """By the writer's own identity; None when it gave none that can be compared here."""
    claimed = record.identity
    boot_id = platform.boot_id()
    if record.boot_id and boot_id and record.boot_id != boot_id:
        return Verdict(STALE, "reboot", "It was written before this machine was booted.")
    if claimed is None or claimed.boot_id != boot_id:
        return None
    if isinstance(platform, LinuxPlatform):
        own_ns = platform.namespace("pid")
        if own_ns is None:
            return Verdict(UNKNOWN, "no-proc", "The PID namespace of this process can't be read.")
        if claimed.pid_ns != own_ns:
            return _judge_foreign_namespace(record, platform)
    look = platform.look(record.pid)
    if (dead := _judge_absence(record, look)) is not None:
        return dead
    if look.identity is None:
        return Verdict(UNKNOWN, "hidden", f"Process {record.pid} exists, and its start can't be read.")
    if look.identity == claimed:
        return Verdict(LIVE, "identity", f"Process {record.pid} is verified: it wrote this.", claimed)
    return Verdict(STALE, "reused", f"PID {record.pid} belongs to another process now.")


def _judge_by_time(record: RuntimeRecord, platform: Platform, now: float | None) -> Verdict:
    """By v1 alone: the writer was alive at started_at, so a process that began later is another one."""
    if record.pid == os.getpid() and platform.look(record.pid).identity is None:
        return Verdict(LIVE, "own-pid", f"PID {record.pid} is this process.")
    now = time.time() if now is None else now
    if record.started_at > now + _CLOCK_DOUBT:
        return Verdict(UNKNOWN, "future", "It was written in the future: a clock was set.")
    look = platform.look(record.pid)
    if (dead := _judge_absence(record, look)) is not None:
        return _doubt_absence(record, platform) if dead.rule == "gone" else dead
    if look.started_at is None:
        return Verdict(UNKNOWN, "hidden", f"Process {record.pid} exists, and its start can't be read.")
    late = look.started_at - record.started_at
    if late > _CLOCK_DOUBT:
        if look.work_dir is not None and look.work_dir == record.work_dir:
            return Verdict(UNKNOWN, "clock-step", f"Process {record.pid} began later, in the same directory.")
        return Verdict(STALE, "reused", f"PID {record.pid} began {late:.1f} s after the record.")
    if look.state == processes.KERNEL or (record.pid == 1 and _in_initial_namespace(platform)):
        return Verdict(UNKNOWN, "foreign-namespace", f"PID {record.pid} can't be an agent here.")
    if late > _CLOCK_ERROR:
        return Verdict(UNKNOWN, "tolerance", f"PID {record.pid} began {late:.2f} s after the record.")
    reason = f"Process {record.pid} began {-late:.1f} s before the record."
    return Verdict(LIVE, "time", reason, look.identity)


def _judge_absence(record: RuntimeRecord, look: Look) -> Verdict | None:
    if look.state == processes.GONE:
        return Verdict(STALE, "gone", f"There is no process {record.pid}.")
    if look.state == processes.ZOMBIE:
        return Verdict(STALE, "zombie", f"Process {record.pid} has ended.")
    if look.state == processes.THREAD:
        return Verdict(STALE, "tid", f"{record.pid} is a thread of another process.")
    return None


def _doubt_absence(record: RuntimeRecord, platform: Platform) -> Verdict:
    """A v1 record does not name its PID namespace: a free PID here proves nothing about another one."""
    gone = Verdict(STALE, "gone", f"There is no process {record.pid}.")
    if not isinstance(platform, LinuxPlatform):
        return gone
    if _in_initial_namespace(platform):
        if platform.has_inner(record.pid):
            return Verdict(UNKNOWN, "inner-namespace", f"A container has a process {record.pid} of its own.")
        return gone
    if platform.namespace("uts") in (None, INITIAL_UTS_NS):
        return Verdict(UNKNOWN, "pid-namespace", "This container shares its host's name but not its PIDs.")
    return gone


def _judge_foreign_namespace(record: RuntimeRecord, platform: LinuxPlatform) -> Verdict:
    """A container with a name of its own, started again: what ran before its first process is dead."""
    first = platform.look(1).started_at
    has_own_name = platform.namespace("uts") not in (None, INITIAL_UTS_NS)
    is_container = has_own_name and not _in_initial_namespace(platform)
    if is_container and first is not None and record.started_at < first - _CLOCK_DOUBT:
        return Verdict(STALE, "container-restarted", "It was written before this container was started.")
    return Verdict(UNKNOWN, "foreign-namespace", "It was written in another PID namespace.")


def _in_initial_namespace(platform: Platform) -> bool:
    return isinstance(platform, LinuxPlatform) and platform.namespace("pid") == INITIAL_PID_NS


def _folded(hostname: str) -> str:
    return hostname.casefold().rstrip(".")


def _same_host(one: str, other: str) -> bool:
    """Equal, or equal in the first label when one of them has no domain."""
    one, other = _folded(one), _folded(other)
    if one == other:
        return True
    return one.split(".")[0] == other.split(".")[0]
