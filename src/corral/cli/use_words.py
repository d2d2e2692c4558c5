"""What processes use, in words: the same in `corral top` and `corral show`."""

from __future__ import annotations

from corral.model.metering import MemoryKind, MeteredSession, Use

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def say_metered(one: MeteredSession) -> str:
    """One line on one session, also when nothing is known."""
    if one.use is None:
        return f"unknown: {one.reason}"
    return say_use(one.use) + (f"; {one.reason}" if one.reason else "")


def say_use(use: Use) -> str:
    """As in "3 processes, 12.4 s CPU, 310 MB (PSS)"."""
    plural = "process" if use.processes == 1 else "processes"
    kind = {None: "", MemoryKind.MIXED: " (PSS, some RSS)"}.get(use.memory_kind, f" ({use.memory_kind})".upper())
    said = f"{use.processes} {plural}, {say_seconds(use.cpu_seconds)} s CPU, {say_bytes(use.memory_bytes)}{kind}"
    return f"{said}; {say_unreadable(use.unreadable)}" if use.unreadable else said


def say_unreadable(count: int) -> str:
    return "1 process can't be read" if count == 1 else f"{count} processes can't be read"


def say_seconds(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 1000 else f"{seconds:,.0f}"


def say_bytes(count: int) -> str:
    """Three digits or so."""
    for size, unit in _UNITS:
        if count >= size:
            number = count / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{count} B"
