"""What this machine is: name, boot, namespaces, clocks."""

from __future__ import annotations

import time
from pathlib import Path


def read_boot_id() -> str | None:
    """The kernel's random id of this boot, or None where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None


def boot_clock_offset() -> float:
    """Epoch seconds at which CLOCK_BOOTTIME read zero; `/proc/stat btime` is only good to a second."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = time.time()
    after = time.clock_gettime(time.CLOCK_BOOTTIME)
    return now - (before + after) / 2
