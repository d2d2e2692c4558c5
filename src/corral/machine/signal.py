"""Signals that reach the very process that was meant, or nobody."""

from __future__ import annotations

import os
import signal
import sys
from typing import NamedTuple

from corral.machine.host import read_comparable_boot_id
from corral.machine.probe import probe
from corral.model.process import ProbeFacts, ProcessIdentity, ProcessState


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
        return NotSent(f"pid {identity.pid} cannot be held: {error.strerror}")
    try:
        # A number can't be given away while its process is held alive: what the look finds is what we hold,
        # or else the signal ends at a process that is already dead.
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
        return f"pid {identity.pid} was of another boot"
    if facts.state is not ProcessState.RUNNING:
        return f"pid {identity.pid} is {facts.state}"
    if (facts.start_ticks, facts.pid_ns) != (identity.start_ticks, identity.pid_ns):
        return f"pid {identity.pid} is another process now"
    return None
