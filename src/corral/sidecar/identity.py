"""Process identity: which process, on which boot, in which PID namespace. A bare PID is never an identity."""

from __future__ import annotations

from corral.sidecar.light import NamedTuple


class ProcessIdentity(NamedTuple):
    """One process for as long as the machine runs; two equal values are the same process."""

    boot_id: str
    pid_ns: int
    """Inode of /proc/PID/ns/pid; 0 where the platform has no PID namespaces."""
    pid: int
    start_ticks: int
    """Field 22 of /proc/PID/stat on Linux; the platform's own start time elsewhere, in its finest unit."""
