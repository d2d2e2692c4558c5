"""A look at one PID that notices when its process ends or is replaced meanwhile; and signals that reach no other."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from typing import NamedTuple

from msgspec import structs

from corral.machine import procfs
from corral.machine.descriptors import is_ready
from corral.machine.host import (
    INITIAL_PID_NS,
    boot_clock_offset,
    read_boot_id,
    read_comparable_boot_id,
    read_own_namespace,
    read_own_pid_namespace,
)
from corral.model.claim import Claim
from corral.model.process import ProbeFacts, ProcessIdentity, ProcessState

_MAX_PID = 4_194_304
_ATTEMPTS = 4
_LATE_S = 2.0
_CLOSE_S = 0.05
_MAX_COMMAND_LINE = 1 << 16


def probe(pid: int, claim_written_at: float | None) -> ProbeFacts:
    """What is true of this PID now. Costs about ten microseconds; never raises, never signals.

    With the time of the record it is asked for, also the facts that only matter when the process is too
    young for it: working directory, names, and who has this number in a container.
    """
    if sys.platform != "linux":
        return ProbeFacts(pid=pid, state=ProcessState.NO_PROC)
    if not 1 <= pid <= _MAX_PID:
        return ProbeFacts(pid=pid, state=ProcessState.GONE)
    for _ in range(_ATTEMPTS):
        if (facts := _look(pid, claim_written_at)) is not None:
            return facts
    # Another process had the number at every look: the writer of the record ended long ago.
    return _gone(pid, claim_written_at)


def probe_claim(claim: Claim) -> ProbeFacts:
    """A look at the process that a claim names, also when it names one inside a container on this machine."""
    if claim.start_ticks is None or claim.boot_id is None or claim.boot_id != read_boot_id():
        return probe(claim.pid, claim.written_at)
    if claim.pid_ns is None or claim.pid_ns == (own := read_own_pid_namespace()):
        facts = probe(claim.pid, claim.written_at)
        if facts.start_ticks == claim.start_ticks or _shares_clock(facts.pid):
            return facts
        return structs.replace(facts, start_ticks=None)  # perhaps the same start, counted by another clock
    holders = [
        process
        for process in read_inner_pids(claim.written_at).find(claim.pid)
        if process.pid_ns in (None, claim.pid_ns)
    ]
    for process in holders:
        if process.start_ticks == claim.start_ticks:
            return probe(process.pid, claim.written_at)
    others = all(process.pid_ns is not None and _shares_clock(process.pid) for process in holders)
    # From the first namespace all others can be seen, unless /proc hides processes from us.
    if others and own == INITIAL_PID_NS and procfs.is_ours() and procfs.read_stat(1) is not None:
        return ProbeFacts(pid=claim.pid, state=ProcessState.GONE, pid_ns=claim.pid_ns)
    return ProbeFacts(pid=claim.pid, state=ProcessState.HIDDEN)


def _shares_clock(pid: int) -> bool:
    """Whether its start ticks mean to it what they mean to us; not where it has a time namespace of its own."""
    own = read_own_namespace("time")
    return own is None or procfs.read_namespace(pid, "time") in (own, None)


def _look(pid: int, written_at: float | None) -> ProbeFacts | None:
    """None when the process ended while we looked."""
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ESRCH:
            return _gone(pid, written_at)
        if error.errno in (errno.ENOENT, errno.EINVAL):  # Linux 6.9 and later, and before
            return ProbeFacts(pid=pid, state=ProcessState.THREAD, inner_pids=_inner(pid, written_at))
        return _look_without_handle(pid, written_at)
    try:
        if not procfs.is_ours():
            return None if is_ready(handle, 0.0) else ProbeFacts(pid=pid, state=ProcessState.NO_PROC)
        stat = procfs.read_stat(pid)
        facts = _describe(pid, stat, written_at)
        # A pidfd is ready from the exit of the last thread on, also while the zombie waits.
        if not is_ready(handle, 0.0):
            if facts.state is ProcessState.ZOMBIE:
                # Only its first thread has ended; the others still run.
                return _describe(pid, stat._replace(state="S") if stat else None, written_at)
            return facts
        return facts if facts.state is ProcessState.ZOMBIE else None
    finally:
        os.close(handle)


def _look_without_handle(pid: int, written_at: float | None) -> ProbeFacts | None:
    """Where pidfds are refused (a container's filter, no free descriptor): read twice and compare."""
    try:
        os.getpgid(pid)  # asks for existence without any permission, and without a signal
    except ProcessLookupError:
        return _gone(pid, written_at)
    except OSError:
        return ProbeFacts(pid=pid, state=ProcessState.HIDDEN)
    if not procfs.is_ours():
        return ProbeFacts(pid=pid, state=ProcessState.NO_PROC)
    stat = procfs.read_stat(pid)
    if stat is not None and procfs.read_thread_group(pid) not in (pid, None):
        return ProbeFacts(pid=pid, state=ProcessState.THREAD, inner_pids=_inner(pid, written_at))
    facts = _describe(pid, stat, written_at)
    again = procfs.read_stat(pid)
    same = (stat and stat.start_ticks) == (again and again.start_ticks)
    return facts if same and (stat or _exists(pid)) else None


def _describe(pid: int, stat: procfs.Stat | None, written_at: float | None) -> ProbeFacts:
    if stat is None:
        return ProbeFacts(pid=pid, state=ProcessState.HIDDEN)
    started_at = boot_clock_offset() + stat.start_ticks / procfs.TICKS_PER_SECOND
    if stat.state in ("Z", "X"):
        state = ProcessState.ZOMBIE
    else:
        state = ProcessState.KERNEL if stat.is_kernel else ProcessState.RUNNING
    late = written_at is None or started_at > written_at + _LATE_S
    in_doubt = late and written_at is not None and state is ProcessState.RUNNING
    return ProbeFacts(
        pid=pid,
        state=state,
        start_ticks=stat.start_ticks,
        started_at=started_at,
        uid=procfs.read_uid(pid),
        pid_ns=procfs.read_pid_namespace(pid),
        cwd=procfs.read_link(pid, "cwd") if in_doubt else None,
        names=_read_names(pid, stat.comm) if in_doubt else (),
        inner_pids=_inner(pid, written_at) if late or state is not ProcessState.RUNNING else (),
    )


def _gone(pid: int, written_at: float | None) -> ProbeFacts:
    return ProbeFacts(pid=pid, state=ProcessState.GONE, inner_pids=_inner(pid, written_at))


def _inner(pid: int, written_at: float | None) -> tuple[int, ...]:
    if not procfs.is_ours():
        return ()
    found = read_inner_pids(written_at).find(pid)
    return tuple(process.pid for process in found if written_at is None or process.started_at <= written_at + _CLOSE_S)


def _exists(pid: int) -> bool:
    try:
        os.getpgid(pid)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _read_names(pid: int, comm: bytes) -> tuple[str, ...]:
    words = (procfs.read_bytes(pid, "cmdline", _MAX_COMMAND_LINE) or b"").split(b"\0")
    return tuple(os.fsdecode(word) for word in (comm, *words) if word)


# --- processes in PID namespaces below ours, by their number inside: who else may be "pid 17"?


_MAX_AGE_S = 30.0
_MAX_AGE_UNDATED_S = 1.0


class InnerProcess(NamedTuple):
    """One process of a child namespace."""

    pid: int
    """As we see it."""
    pid_ns: int | None
    """None when it may not be read."""
    start_ticks: int
    started_at: float


class InnerPids:
    """One look at all processes; good for records that were written before it."""

    def __init__(self) -> None:
        self._read_at = time.time()
        self._read_at_monotonic = time.monotonic()
        self._by_inner_pid: dict[int, list[InnerProcess]] = {}
        own = read_own_pid_namespace()
        offset = boot_clock_offset()
        for name in procfs.list_pids():
            pid_ns = procfs.read_namespace(name, "pid")
            if pid_ns is not None and pid_ns == own:
                continue
            pids = procfs.read_ns_pids(int(name))
            if len(pids) < 2 or (stat := procfs.read_stat(name)) is None:
                continue
            started_at = offset + stat.start_ticks / procfs.TICKS_PER_SECOND
            process = InnerProcess(int(name), pid_ns, stat.start_ticks, started_at)
            self._by_inner_pid.setdefault(pids[-1], []).append(process)

    def covers(self, written_at: float | None) -> bool:
        """Whether every process that began before that time, and still runs, was seen."""
        age = time.monotonic() - self._read_at_monotonic
        if written_at is None or written_at > time.time():
            return age <= _MAX_AGE_UNDATED_S
        return age <= _MAX_AGE_S and written_at <= self._read_at

    def numbers(self) -> set[int]:
        """Every number that some process has inside."""
        return set(self._by_inner_pid)

    def find(self, inner_pid: int) -> list[InnerProcess]:
        """Those that have the number inside, and still run."""
        return [
            process
            for process in self._by_inner_pid.get(inner_pid, ())
            if not procfs.has_ended(process.pid, process.start_ticks)
        ]


_latest: InnerPids | None = None


def read_inner_pids(written_at: float | None) -> InnerPids:
    """A look that covers records of that time; one look serves a whole survey."""
    global _latest
    if _latest is None or not _latest.covers(written_at):
        _latest = InnerPids()
    return _latest


# --- signals


class Sent(NamedTuple):
    """The signal was delivered to this process."""

    identity: ProcessIdentity


class NotSent(NamedTuple):
    """Nobody was signalled, and why."""

    reason: str


def send_signal(identity: ProcessIdentity, signum: int) -> Sent | NotSent:
    """Hold the process by a pidfd, verify that it is the one, signal it through the pidfd."""
    if sys.platform != "linux":
        return NotSent("without pidfds a signal could reach another process")
    try:
        handle = os.pidfd_open(identity.pid)
    except OSError as error:
        return NotSent(f"pid {identity.pid} can't be watched: {error.strerror}")
    try:
        # A number is not reused while its process lives: what the look finds is what the pidfd holds,
        # or else the signal goes to a process that is already dead.
        if (problem := _mismatch(identity, probe(identity.pid, None))) is not None:
            return NotSent(problem)
        signal.pidfd_send_signal(handle, signum)
    except (OSError, ValueError) as error:
        return NotSent(f"pid {identity.pid} was not signalled: {error}")
    finally:
        os.close(handle)
    return Sent(identity)


def _mismatch(identity: ProcessIdentity, facts: ProbeFacts) -> str | None:
    if not identity.boot_id or identity.boot_id != read_comparable_boot_id():
        return f"pid {identity.pid} belonged to another boot"
    if facts.state is not ProcessState.RUNNING:
        return f"pid {identity.pid} is {facts.state}"
    if (facts.start_ticks, facts.pid_ns) != (identity.start_ticks, identity.pid_ns):
        return f"pid {identity.pid} is another process now"
    return None
