"""Which process is behind a PID: one look at it, on any platform."""

from __future__ import annotations

import os
import sys
import time

from corral.sidecar.files import close_quietly
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light import NamedTuple

RUNNING = "running"
"""It exists; it may be stopped or in uninterruptible sleep."""
GONE = "gone"
ZOMBIE = "zombie"
THREAD = "thread"
"""The number is a thread of another process."""
KERNEL = "kernel"
HIDDEN = "hidden"
"""It exists, and we can't learn when it began."""

# Inodes that the kernel gives to the first namespaces of a boot (include/linux/proc_ns.h).
INITIAL_PID_NS = 4026531836
INITIAL_UTS_NS = 4026531838
_KERNEL_THREAD = 0x00200000
_WHOLE = 1 << 16
_CLOCK_READINGS = 5
_CLOCK_SECONDS = 0.001


class Look(NamedTuple):
    """What one look at a PID found. `identity` is None unless the look could establish it."""

    state: str
    identity: ProcessIdentity | None = None
    started_at: float | None = None
    """Epoch seconds."""
    work_dir: str | None = None
    """May raise doubt about a death, never belief in a life."""


class Platform:
    """What the sidecar asks an operating system. Of one that we don't know: whether a PID is free, and no more."""

    def boot_id(self) -> str:
        """A name of this boot that no other boot has; empty where there is none."""
        return ""

    def booted_at(self) -> float | None:
        """Epoch seconds."""
        return None

    def hostname(self) -> str:
        return hostname()

    def look(self, pid: int) -> Look:
        return Look(GONE if is_free(pid) else HIDDEN)


def hostname() -> str:
    """This machine's name as the kernel knows it."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    from socket import gethostname  # Windows only, and slow to import

    return gethostname()


def is_free(pid: int) -> bool:
    """True only when the system says that there is no such process."""
    if os.name != "posix":
        return False  # on Windows, signal 0 is Ctrl-C
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True  # OverflowError: larger than any PID
    except OSError:
        return False
    return False


class Stat(NamedTuple):
    """The three fields of /proc/PID/stat that distinguish processes."""

    state: str
    flags: int
    start_ticks: int


def parse_stat(line: bytes) -> Stat | None:
    """None for bytes that are no stat line. comm may contain anything, so fields count after the LAST `)`."""
    close = line.rfind(b")")
    fields = line[close + 1 :].split()
    if close < 0 or len(fields) < 20:
        return None
    try:
        return Stat(fields[0].decode("ascii"), int(fields[6]), int(fields[19]))
    except ValueError:
        return None


def read_booted_at() -> float:
    """Epoch seconds at which CLOCK_BOOTTIME read zero; `btime` in /proc/stat is whole seconds and leans to one side.

    A pause between the two clocks would move every start by as much: the reading that took least counts.
    """
    best = float("inf")
    found = 0.0
    for _ in range(_CLOCK_READINGS):
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        now = time.time()
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
        if after - before < best:
            best, found = after - before, now - (before + after) / 2
        if best < _CLOCK_SECONDS:
            break
    return found


class LinuxPlatform(Platform):
    """Reads below `proc`, so that a test can show it another machine."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._boot_id = ""

    def boot_id(self) -> str:
        # A running process sees one boot only.
        self._boot_id = self._boot_id or self._read("sys/kernel/random/boot_id").decode("ascii", "replace").strip()
        return self._boot_id

    def booted_at(self) -> float | None:
        return read_booted_at()

    def look(self, pid: int) -> Look:
        stat = parse_stat(self._read(f"{pid}/stat"))
        if stat is None:
            return Look(GONE if is_free(pid) else HIDDEN)
        status = self._status(pid)
        if status.get(b"Tgid", [b"%d" % pid]) != [b"%d" % pid]:
            return Look(THREAD)
        pid_ns = self.namespace("pid", str(pid))
        if pid_ns is None and len(status.get(b"NSpid", [])) == 1:
            pid_ns = self.namespace("pid")  # another user's process: its one PID says that it is in ours
        work_dir = self._link(f"{pid}/cwd")
        again = parse_stat(self._read(f"{pid}/stat"))
        if again is None or again.start_ticks != stat.start_ticks:
            return Look(GONE)  # it ended while we looked
        if again.state in ("Z", "X", "x") and not self._has_threads(pid):
            return Look(ZOMBIE)
        state = KERNEL if stat.flags & _KERNEL_THREAD else RUNNING
        started_at = (self.booted_at() or 0.0) + stat.start_ticks / os.sysconf("SC_CLK_TCK")
        boot_id = self.boot_id()
        identity = None
        if pid_ns is not None and boot_id:
            identity = ProcessIdentity(boot_id, pid_ns, pid, stat.start_ticks)
        return Look(state, identity, started_at, work_dir)

    def namespace(self, kind: str, pid: str = "self") -> int | None:
        """The inode of a process's namespace, or None when it may not be read."""
        try:
            return os.stat(f"{self._proc}/{pid}/ns/{kind}").st_ino
        except OSError:
            return None

    def has_inner(self, pid: int) -> bool:
        """True when some process in a child namespace is called `pid` there, or when that can't be told."""
        try:
            names = os.listdir(self._proc)
        except OSError:
            return True
        for name in names:
            if name.isdigit():
                inner = self._status(int(name)).get(b"NSpid", [])
                if len(inner) > 1 and inner[-1] == b"%d" % pid:
                    return True
        return False

    def _has_threads(self, pid: int) -> bool:
        """A process whose first thread has ended looks like a zombie and lives on in its other threads."""
        try:
            return len(os.listdir(f"{self._proc}/{pid}/task")) > 1
        except OSError:
            return False

    def _status(self, pid: int) -> dict[bytes, list[bytes]]:
        """The two of its sixty lines that are asked for here."""
        lines = self._read(f"{pid}/status").splitlines()
        wanted = (line.partition(b":") for line in lines if line.startswith((b"Tgid:", b"NSpid:")))
        return {name: value.split() for name, _, value in wanted}

    def _read(self, name: str) -> bytes:
        try:
            fd = os.open(f"{self._proc}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(fd, _WHOLE)  # the kernel makes these files in one piece
        except OSError:
            return b""
        finally:
            close_quietly(fd)

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(f"{self._proc}/{name}")
        except OSError:
            return None


_platforms: dict[str, Platform] = {}


def find_platform(name: str = sys.platform) -> Platform:
    """The platform called `name`, as sys.platform spells it."""
    if name not in _platforms:
        _platforms[name] = _load_platform(name)
    return _platforms[name]


def _load_platform(name: str) -> Platform:
    if name == "linux":
        return LinuxPlatform()
    if name == "darwin":
        from corral.sidecar.processes_elsewhere import DarwinPlatform

        return DarwinPlatform()
    if name == "win32":
        from corral.sidecar.processes_elsewhere import WindowsPlatform

        return WindowsPlatform()
    return Platform()


def read_identity(pid: int, platform: Platform | None = None) -> ProcessIdentity | None:
    """The identity of a running process; None when it is gone, a zombie or a thread, or can't be told."""
    if pid < 1:
        return None
    look = (platform or find_platform()).look(pid)
    return look.identity if look.state in (RUNNING, KERNEL) else None


def own_identity(platform: Platform | None = None) -> ProcessIdentity | None:
    """The identity of this process; None where the platform does not say."""
    return read_identity(os.getpid(), platform)
