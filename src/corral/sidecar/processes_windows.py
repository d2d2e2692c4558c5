"""Processes on Windows, by GetProcessTimes: the creation time in units of 100 ns."""

import sys
from typing import Any

from corral.sidecar import processes
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import Look

_QUERY_LIMITED_INFORMATION = 0x1000
_STILL_ACTIVE = 259
_INVALID_PARAMETER = 87
"""What OpenProcess says of a PID that is free."""
_UNIX_EPOCH = 116_444_736_000_000_000
"""1970 in units of 100 ns since 1601."""


class WindowsPlatform:
    """`kernel32` and `last_error` are injected by tests."""

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

    def boot_id(self) -> str:
        return ""  # creation times are absolute, so that an identity needs no boot

    def booted_at(self) -> float | None:
        return None

    def hostname(self) -> str:
        return processes.hostname()

    def look(self, pid: int) -> Look:
        handle = self._kernel32.OpenProcess(_QUERY_LIMITED_INFORMATION, False, pid)
        if not handle:
            return Look(processes.GONE if self._last_error() == _INVALID_PARAMETER else processes.HIDDEN)
        try:
            return self._look(handle, pid)
        finally:
            self._kernel32.CloseHandle(handle)

    def _look(self, handle: object, pid: int) -> Look:
        if self._kernel32.GetProcessId(handle) != pid:
            return Look(processes.GONE)  # OpenProcess ignores the lowest two bits of a PID
        c_ulong, byref = self._ctypes.c_ulong, self._ctypes.byref
        code = c_ulong()
        if self._kernel32.GetExitCodeProcess(handle, byref(code)) and code.value != _STILL_ACTIVE:
            return Look(processes.ZOMBIE)  # ended, and somebody holds a handle
        created, ended, kernel, user = (self._ctypes.c_uint64() for _ in range(4))
        times = (byref(created), byref(ended), byref(kernel), byref(user))
        if not self._kernel32.GetProcessTimes(handle, *times):
            return Look(processes.HIDDEN)
        identity = ProcessIdentity("", 0, pid, created.value)
        return Look(processes.RUNNING, identity, (created.value - _UNIX_EPOCH) / 1e7)
