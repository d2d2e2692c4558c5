"""Which process is behind a PID: one look at it, on whatever platform this is."""

from __future__ import annotations

import os
import sys

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light_typing import NamedTuple, Protocol

RUNNING = "running"
"""It exists; also when stopped or in uninterruptible sleep."""
GONE = "gone"
ZOMBIE = "zombie"
THREAD = "thread"
"""The number is a thread of another process."""
KERNEL = "kernel"
HIDDEN = "hidden"
"""It exists, and we may not or cannot learn when it began."""


class Look(NamedTuple):
    """What one look at a PID found. `identity` is None unless the look could establish it."""

    state: str
    identity: ProcessIdentity | None = None
    started_at: float | None = None
    """Epoch seconds."""
    work_dir: str | None = None
    """May raise doubt about a death, never belief in a life."""


class Platform(Protocol):
    """What the sidecar needs to know from an operating system.

    `boot_id` is a name of this boot that no other boot has, empty where there is none. `booted_at` is in epoch
    seconds, or None.
    """

    def boot_id(self) -> str: ...

    def booted_at(self) -> float | None: ...

    def hostname(self) -> str: ...

    def look(self, pid: int) -> Look: ...


class OtherPlatform:
    """A system that we know nothing about: whether a PID is free can be told, and no more."""

    def boot_id(self) -> str:
        return ""

    def booted_at(self) -> float | None:
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


_platforms: dict[str, Platform] = {}


def find_platform(name: str = sys.platform) -> Platform:
    """The platform called `name`, as sys.platform spells it."""
    if name not in _platforms:
        _platforms[name] = _load_platform(name)
    return _platforms[name]


def _load_platform(name: str) -> Platform:
    if name == "linux":
        from corral.sidecar.processes_linux import LinuxPlatform

        return LinuxPlatform()
    if name == "darwin":
        from corral.sidecar.processes_darwin import DarwinPlatform

        return DarwinPlatform()
    if name == "win32":
        from corral.sidecar.processes_windows import WindowsPlatform

        return WindowsPlatform()
    return OtherPlatform()


def read_identity(pid: int, platform: Platform | None = None) -> ProcessIdentity | None:
    """The identity of a running process; None when it is gone, a zombie or a thread, or can't be told."""
    if pid < 1:
        return None
    look = (platform or find_platform()).look(pid)
    return look.identity if look.state in (RUNNING, KERNEL) else None


def own_identity(platform: Platform | None = None) -> ProcessIdentity | None:
    """The identity of this very process; None where the platform can't tell."""
    return read_identity(os.getpid(), platform)
