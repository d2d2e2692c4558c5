"""Processes on macOS, by sysctl: the kernel's own start time in microseconds (`ps` rounds it to seconds)."""

import struct
from typing import Any

from corral.sidecar import processes
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import Look

# <sys/sysctl.h>: CTL_KERN, KERN_PROC, KERN_PROC_PID.
_KERN_PROC_PID = (1, 14, 1)
# struct kinfo_proc on 64-bit macOS: p_starttime {int64 sec, int32 usec} leads, p_stat at 36, p_pid at 40.
_KINFO_SIZE = 648
_START = struct.Struct("=qi")
_STAT_OFFSET = 36
_PID = struct.Struct("=i")
_PID_OFFSET = 40
_ZOMBIE = 5


class DarwinPlatform:
    """`libc` is injected by tests; it needs `sysctl` and `sysctlbyname`."""

    def __init__(self, libc: Any = None) -> None:
        import ctypes

        self._ctypes = ctypes
        self._libc: Any = libc if libc is not None else ctypes.CDLL(None, use_errno=True)

    def boot_id(self) -> str:
        size = self._ctypes.c_size_t(64)
        buffer = self._ctypes.create_string_buffer(64)
        failed = self._libc.sysctlbyname(b"kern.bootsessionuuid", buffer, self._ctypes.byref(size), None, 0)
        return "" if failed else buffer.value.decode("ascii", "replace")

    def booted_at(self) -> float | None:
        size = self._ctypes.c_size_t(16)
        buffer = self._ctypes.create_string_buffer(16)
        if self._libc.sysctlbyname(b"kern.boottime", buffer, self._ctypes.byref(size), None, 0):
            return None
        seconds, micros = _START.unpack_from(buffer.raw)
        return seconds + micros / 1e6

    def hostname(self) -> str:
        return processes.hostname()

    def look(self, pid: int) -> Look:
        mib = (self._ctypes.c_int * 4)(*_KERN_PROC_PID, pid)
        size = self._ctypes.c_size_t(_KINFO_SIZE)
        buffer = self._ctypes.create_string_buffer(_KINFO_SIZE)
        failed = self._libc.sysctl(mib, 4, buffer, self._ctypes.byref(size), None, 0)
        if failed or size.value == 0:
            return Look(processes.GONE if processes.is_free(pid) else processes.HIDDEN)
        if size.value != _KINFO_SIZE or _PID.unpack_from(buffer.raw, _PID_OFFSET)[0] != pid:
            return Look(processes.HIDDEN)  # a layout that we do not know
        if buffer.raw[_STAT_OFFSET] == _ZOMBIE:
            return Look(processes.ZOMBIE)
        seconds, micros = _START.unpack_from(buffer.raw)
        identity = ProcessIdentity(self.boot_id(), 0, pid, seconds * 1_000_000 + micros)
        return Look(processes.RUNNING, identity, seconds + micros / 1e6)
