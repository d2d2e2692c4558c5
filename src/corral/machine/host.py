"""What this machine is: name, boot, namespaces, clocks, and which filesystems other machines may share."""

from __future__ import annotations

import os
import sys
import time
from functools import lru_cache

from corral.machine.procfs import TICKS_PER_SECOND, read_namespace
from corral.model.process import HostFacts
from corral.sidecar.processes import read_booted_at

# include/linux/proc_ns.h: the first namespaces have fixed numbers.
_INITIAL_UTS_NS = 4026531838
INITIAL_PID_NS = 4026531836
_INITIAL_TIME_NS = 4026531834
# include/uapi/linux/pidfd.h, Linux 6.11: what a pidfd says even where no /proc is mounted.
_PIDFD_GET_NAMESPACE = {"pid": 0xFF05, "time": 0xFF07, "uts": 0xFF0A}
_HAS_BOOT_CLOCK = hasattr(time, "CLOCK_BOOTTIME")


def read_boot_id() -> str | None:
    """The kernel's random id of this boot, or None where there is none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return None


def read_comparable_boot_id() -> str | None:
    """The boot id, or None where our start ticks differ from those that others on this boot see.

    A private time namespace shifts field 22 of /proc/PID/stat: exact comparison with ticks written
    outside it would call a living process reused. Start times stay right, as the clock shifts with them.
    """
    if read_own_namespace("time") not in (_INITIAL_TIME_NS, None):
        return None
    return read_boot_id()


def boot_clock_offset() -> float:
    """Epoch seconds at which CLOCK_BOOTTIME read zero."""
    return read_booted_at() if _HAS_BOOT_CLOCK else time.time() - time.monotonic()


def read_own_namespace(kind: str) -> int | None:
    """The inode of our own namespace ("pid", "uts", "time"), or None where nothing says it."""
    return read_namespace("self", kind) or _ask_pidfd(kind)


def read_own_pid_namespace() -> int:
    """The inode of our PID namespace, which no process ever leaves; 0 where nothing says it."""
    return _read_pid_namespace_of(os.getpid())


def read_host_facts() -> HostFacts:
    """This machine now. Namespaces that are not known are taken for foreign ones with our name."""
    if sys.platform != "linux":
        pid_ns, uts_ns = 0, _INITIAL_UTS_NS
    else:
        pid_ns, uts_ns = read_own_pid_namespace() or None, read_own_namespace("uts")
    return HostFacts(
        hostname=_read_hostname(),
        boot_id=read_comparable_boot_id(),
        booted_at=boot_clock_offset(),
        now=time.time(),
        awake=time.monotonic(),
        pid_ns=pid_ns or 0,
        pid_ns_is_initial=pid_ns in (0, INITIAL_PID_NS),
        uts_ns_is_initial=uts_ns in (None, _INITIAL_UTS_NS),
        uid=os.geteuid() if hasattr(os, "geteuid") else 0,
        ticks_per_second=TICKS_PER_SECOND,
    )


def _read_hostname() -> str:
    if sys.platform != "win32":
        return os.uname().nodename
    import platform

    return platform.node()


@lru_cache(maxsize=1)
def _read_pid_namespace_of(_own_pid: int) -> int:
    return read_own_namespace("pid") or 0


def _ask_pidfd(kind: str) -> int | None:
    if sys.platform != "linux":
        return None
    import fcntl

    try:
        pidfd = os.pidfd_open(os.getpid())
    except (OSError, AttributeError):
        return None
    try:
        namespace = fcntl.ioctl(pidfd, _PIDFD_GET_NAMESPACE[kind])
    except OSError:
        return None
    finally:
        os.close(pidfd)
    try:
        return os.fstat(namespace).st_ino
    finally:
        os.close(namespace)


# --- filesystems that other machines may share


_NETWORK_TYPES = (
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"}
    | {"fuse.ceph", "fuse.ceph-fuse", "fuse.davfs", "fuse.glusterfs", "fuse.juicefs", "fuse.rclone"}
    | {"fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse"}
)


_mounts: dict[int, bool] = {}
"""By device: whether it is a network filesystem. Read when first asked, and again for a device that it lacks."""


def is_network_device(device: int) -> bool:
    """For the `st_dev` of a file that was just read."""
    if device not in _mounts:
        _mounts.update(parse_mountinfo(_read_mountinfo()))
        _mounts.setdefault(device, False)  # a subvolume, or no table: nothing says network
    return _mounts[device]


def is_on_network(path: str) -> bool:
    """False also when the path can't be read: then nothing was read from it either."""
    try:
        return is_network_device(os.stat(path).st_dev)
    except (OSError, ValueError):
        return False


def parse_mountinfo(text: str) -> dict[int, bool]:
    """Device number → is it a network filesystem. Lines of another shape are ignored."""
    found: dict[int, bool] = {}
    for line in text.splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(), source.partition(" ")[0]
        major, _, minor = fields[2].partition(":") if len(fields) > 2 else ("", "", "")
        if kind and major.isdecimal() and minor.isdecimal():
            found[os.makedev(int(major), int(minor))] = kind in _NETWORK_TYPES
    return found


def _read_mountinfo() -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
