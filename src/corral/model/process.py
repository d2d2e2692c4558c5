"""Processes as corral sees them: who they are, and which agent CLI they belong to."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.sidecar.identity import ProcessIdentity

__all__ = ["HostFacts", "ProbeFacts", "ProcessIdentity", "ProcessMode", "ProcessState", "Recognised"]


class ProcessMode(StrEnum):
    """How an agent process was started, as far as it can be told from outside."""

    INTERACTIVE = "interactive"
    HEADLESS = "headless"
    SERVER = "server"
    """Serves several sessions by nature (`acp`, `web`, `serve`)."""
    UNKNOWN = "unknown"


class Recognised(Struct, frozen=True, kw_only=True):
    """A running process that a provider calls its own. It says nothing about sessions."""

    provider: str
    identity: ProcessIdentity
    started_at: float
    """Epoch seconds."""
    home: str | None
    """The provider's data root in force, or None when it cannot be told (then it counts for all homes)."""
    mode: ProcessMode = ProcessMode.UNKNOWN
    group: int
    """The PID of the top-most process of the same run: launcher levels of one run share it."""
    terminal: str | None = None
    """The controlling terminal, such as /dev/pts/3."""
    version: str | None = None
    work_dir: str | None = None
    """For display only; nothing is ever matched by it."""


class ProcessState(StrEnum):
    """What a look at one PID found."""

    RUNNING = "running"
    """It exists; also when stopped or in uninterruptible sleep."""
    GONE = "gone"
    ZOMBIE = "zombie"
    THREAD = "thread"
    """The number is a thread id of another process."""
    KERNEL = "kernel"
    HIDDEN = "hidden"
    """It exists, and /proc does not show it to us."""
    NO_PROC = "no-proc"
    """It exists, and there is no /proc (or no platform way) to learn when it began."""


class ProbeFacts(Struct, frozen=True, kw_only=True):
    """What the machine says about one PID at one moment, read so that a reuse in between is noticed."""

    pid: int
    state: ProcessState
    start_ticks: int | None = None
    started_at: float | None = None
    """Epoch seconds, computed through CLOCK_BOOTTIME."""
    uid: int | None = None
    pid_ns: int | None = None
    """None when it may not be read (another user's process)."""
    cwd: str | None = None
    names: tuple[str, ...] = ()
    """comm and the words of the command line; only ever used to raise doubt."""
    inner_pids: tuple[int, ...] = ()
    """For GONE: PIDs here of processes in child namespaces whose innermost PID is this number
    and that began no later than the record."""


class HostFacts(Struct, frozen=True, kw_only=True):
    """What this machine is, for one survey."""

    hostname: str
    boot_id: str | None
    booted_at: float
    """Epoch seconds by CLOCK_BOOTTIME."""
    now: float
    """Epoch seconds."""
    pid_ns: int
    pid_ns_is_initial: bool
    uts_ns_is_initial: bool
    uid: int
