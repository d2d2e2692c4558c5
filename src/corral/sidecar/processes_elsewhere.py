"""Processes on macOS and Windows, as far as their systems say. Tests run both against a stand-in for the system."""

import struct
import sys
from typing import Any

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import GONE, HIDDEN, RUNNING, ZOMBIE, Look, Platform, is_free

# <sys/sysctl.h>: CTL_KERN, KERN_PROC, KERN_PROC_PID.
_KERN_PROC_PID = (1, 14, 1)
# struct kinfo_proc on 64-bit macOS: p_starttime {int64 sec, int32 usec} leads, p_stat at 36, p_pid at 40.
_KINFO_SIZE = 648
_START = struct.Struct("=qi")
_STAT_OFFSET = 36
_PID = struct.Struct("=i")
_PID_OFFSET = 40
_DARWIN_ZOMBIE = 5

_QUERY_LIMITED_INFORMATION = 0x1000
_STILL_ACTIVE = 259
_INVALID_PARAMETER = 87
"""What OpenProcess says of a PID that is free."""
_UNIX_EPOCH = 116_444_736_000_000_000
"""1970 in units of 100 ns since 1601."""


class DarwinPlatform(Platform):
    """macOS, by sysctl: the kernel's own start time in microseconds (`ps` rounds it to seconds).

    `libc` is injected by tests; it needs `sysctl` and `sysctlbyname`.
    """

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

    def look(self, pid: int) -> Look:
        mib = (self._ctypes.c_int * 4)(*_KERN_PROC_PID, pid)
        size = self._ctypes.c_size_t(_KINFO_SIZE)
        buffer = self._ctypes.create_string_buffer(_KINFO_SIZE)
        failed = self._libc.sysctl(mib, 4, buffer, self._ctypes.byref(size), None, 0)
        if failed or size.value == 0:
            return Look(GONE if is_free(pid) else HIDDEN)
        if size.value != _KINFO_SIZE or _PID.unpack_from(buffer.raw, _PID_OFFSET)[0] != pid:
            return Look(HIDDEN)  # a layout that we do not know
        if buffer.raw[_STAT_OFFSET] == _DARWIN_ZOMBIE:
            return Look(ZOMBIE)
        seconds, micros = _START.unpack_from(buffer.raw)
        identity = ProcessIdentity(self.boot_id(), 0, pid, seconds * 1_000_000 + micros)
        return Look(RUNNING, identity, seconds + micros / 1e6)


class WindowsPlatform(Platform):
    """Windows, by GetProcessTimes: the creation time in units of 100 ns.

    Creation times are absolute, so that an identity needs no boot. `kernel32` and `last_error` are injected by tests.
    """

    def __init__(self, kernel32: Any = None, last_error: Any = None) -> None:
        import ctypes

        self._ctypes = ctypes
        if sys.platform == "win32" and kernel32 is None:
            from ctypes import wintypes

            kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
            kernel32.OpenProcess.restype = wintypes.HANDLE
            for name in ("GetProcessTimes", "GetExitCodeProcess", "GetProcessId", "CloseHandle"):
                getattr(kernel32, name).argtypes = [wintypes.HANDLE] + [ctypes.c_void_p] * {
                    "GetProcessTimes": 4,
                    "GetExitCodeProcess": 1,
                }.get(name, 0)
            last_error = ctypes.get_last_error
        self._kernel32: Any = kernel32
        self._last_error: Any = last_error

    def look(self, pid: int) -> Look:
        handle = self._kernel32.OpenProcess(_QUERY_LIMITED_INFORMATION, False, pid)
        if not handle:
            return Look(GONE if self._last_error() == _INVALID_PARAMETER else HIDDEN)
        try:
            return self._look(handle, pid)
        finally:
            self._kernel32.CloseHandle(handle)

    def _look(self, handle: object, pid: int) -> Look:
        if self._kernel32.GetProcessId(handle) != pid:
            return Look(GONE)  # OpenProcess ignores the lowest two bits of a PID
        c_ulong, byref = self._ctypes.c_ulong, self._ctypes.byref
        code = c_ulong()
        if self._kernel32.GetExitCodeProcess(handle, byref(code)) and code.value != _STILL_ACTIVE:
            return Look(ZOMBIE)  # ended, and somebody holds a handle
        created, ended, kernel, user = (self._ctypes.c_uint64() for _ in range(4))
        times = (byref(created), byref(ended), byref(kernel), byref(user))
        if not self._kernel32.GetProcessTimes(handle, *times):
            return Look(HIDDEN)
        identity = ProcessIdentity("", 0, pid, created.value)
        return Look(RUNNING, identity, (created.value - _UNIX_EPOCH) / 1e7)
