"""What processes spent between two looks, although children end and their time passes to who waited for them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from corral.model.metering import SeenProcess


class Look(Struct, frozen=True, kw_only=True):
    """One look at the machine."""

    at: float
    """In seconds of a clock that never steps."""
    seen: Mapping[int, SeenProcess]
    cpu_seconds: Mapping[int, float]
    """Of the processes that were measured, with the children that they had waited for."""


def cpu_spent(before: Look, after: Look) -> dict[int, float]:
    """CPU seconds of each process measured now, since the look before.

    A child that has ended since adds its whole life to its parent's figure at once: what was known of it is taken
    off there. Of a process that was there before and not measured nothing is known, and nothing is counted.
    """
    passed_on = _passed_on(before, after)
    spent: dict[int, float] = {}
    for pid, now in after.cpu_seconds.items():
        if not _is_in(before, after.seen[pid]):
            spent[pid] = now
        elif pid in before.cpu_seconds:
            spent[pid] = max(0.0, now - before.cpu_seconds[pid] - passed_on.get(pid, 0.0))
    return spent


def _passed_on(before: Look, after: Look) -> dict[int, float]:
    """What was known of processes that have ended, by the nearest ancestor that has not."""
    passed_on: dict[int, float] = {}
    for pid, seconds in before.cpu_seconds.items():
        at: SeenProcess | None = before.seen[pid]
        met: set[int] = set()
        while at is not None and at.pid not in met and not _is_in(after, at):
            met.add(at.pid)
            at = before.seen.get(at.parent_pid)
        if at is not None and at.pid != pid and at.pid not in met:
            passed_on[at.pid] = passed_on.get(at.pid, 0.0) + seconds
    return passed_on


def _is_in(look: Look, process: SeenProcess) -> bool:
    found = look.seen.get(process.pid)
    return found is not None and found.start_ticks == process.start_ticks
