"""Processes as corral sees them: who they are, and which agent CLI they belong to."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from corral.sidecar.identity import ProcessIdentity as ProcessIdentity


class ProcessMode(StrEnum):
    """How an agent process was started, as far as can be seen from outside."""

    INTERACTIVE = "interactive"
    HEADLESS = "headless"
    SERVER = "server"
    """Serves several sessions by nature (`acp`, `web`, `serve`)."""
    CLIENT = "client"
    """A window of a server, which serves no session itself."""
    UNKNOWN = "unknown"


DirectoryId = tuple[int, int]
"""Device and inode: the same directory whatever it is called, wherever it is mounted."""


class Reach(Struct, frozen=True, kw_only=True):
    """The sessions of a home that a process could have opened without having written anything yet."""

    directories: tuple[DirectoryId, ...] | None = None
    """Those of these work directories; None: all of the home."""
    paths: tuple[str, ...] = ()
    """The same by the paths that the process knows: a directory may have been renamed since."""
    ids: tuple[str, ...] = ()
    """These, wherever they ran."""
    renamed: bool = True
    """Its directory may have been renamed, and its paths are not known: then sessions count whose directory is gone."""


WHOLE_HOME = Reach()
NOTHING = Reach(directories=())


class Opening(NamedTuple):
    """A line of a log by which some process says that it opened a session."""

    place: int
    """Where it ends, in bytes."""
    session_id: str
    at: float
    """Epoch seconds."""
    is_new: bool = False
    """The session did not exist before."""


class OwnLog(Struct, frozen=True, kw_only=True):
    """What the log that a process keeps open says of the sessions it opened. Others may write there, too."""

    path: str
    pid: int
    """Its number in its own PID namespace."""
    file: tuple[int, int] = (0, 0)
    """Device and inode."""
    openings: tuple[Opening, ...] = ()
    """From its start to its own last line; each may be another process's, or forged."""
    whole: bool = False
    """Its own lines are certainly among these: all that it can have written since it began was read."""
    has_begun: bool = True
    """It has opened a session, or begun to serve many; before that it has none."""
    beside_server: bool = False
    """A server of many sessions began when it did: that may be this process."""
    reason: str | None = None
    """Of a log that is not whole: why."""

    @property
    def session_ids(self) -> tuple[str, ...]:
        """Sessions that it may have opened, in the order of the log."""
        return tuple(dict.fromkeys(opening.session_id for opening in self.openings))


class ToldByChild(NamedTuple):
    """What a process gave to a child that it started: the session in which it did so."""

    parent_pid: int
    """The number of the process itself in its own PID namespace."""
    child_pid: int
    session_id: str
    at: float
    """When the child began, in epoch seconds."""


class Recognised(Struct, frozen=True, kw_only=True):
    """A running process that a provider calls its own. It says nothing about sessions."""

    provider: str
    identity: ProcessIdentity
    started_at: float
    """Epoch seconds."""
    home: str | None
    """The provider's data root in force, or None when it is not known."""
    mode: ProcessMode = ProcessMode.UNKNOWN
    group: int
    """The PID of the top-most process of the same run: launcher levels of one run share it."""
    terminal: str | None = None
    """The controlling terminal, such as /dev/pts/3."""
    version: str | None = None
    work_dir: str | None = None
    """For display only; nothing is ever matched by it."""
    told: ToldByChild | None = None
    """Of a process that keeps its session to its end: what the environment of a running child of it says."""
    log: OwnLog | None = None
    """Its own log, where its provider keeps one that names sessions."""
    reach: Reach = WHOLE_HOME
    """What it could have open in its home, as its provider knows this mode of it."""
    uid: int | None = None
    is_copy: bool = False
    """Forked and not (yet) another program: it looks like its parent, which may have more to say."""
    is_stopped: bool = False
    """It was stopped by a signal, and does nothing until it is continued."""
    without_session: bool = False
    """The CLI's own evidence says that it has no session yet, whatever else is known of it."""
    never_reports: bool = False
    """In this mode its CLI runs no hooks, or may be such a mode: its silence says nothing."""
    shares_mounts: bool = True
    """A path means the same to it and to us: it is in no container."""
    reaches: dict[str, Reach] | None = None
    """By home, what it could have open there; None where its home is not known: then anything in any home."""

    def reach_in(self, home: str) -> Reach | None:
        """What it could have open in this home; None when nothing."""
        if self.reaches is not None:
            return self.reaches.get(home)
        return self.reach if self.home in (None, home) else None


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
    awake: float = 0.0
    """Seconds of CLOCK_MONOTONIC, in which the machine's sleep does not count."""
    pid_ns: int
    pid_ns_is_initial: bool
    uts_ns_is_initial: bool
    uid: int
    ticks_per_second: float = 100.0
    """The unit of start ticks."""
