"""What live sessions use of the machine: a survey and one snapshot of /proc, divided, then measured."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from corral.machine import procfs
from corral.model.key import SessionKey
from corral.model.metering import (
    Division,
    MemoryKind,
    MeteredSession,
    MeteredTree,
    Metering,
    SeenProcess,
    Share,
    Tree,
    Use,
)
from corral.model.selection import Selection
from corral.model.session import Session, Survey
from corral.model.verdict import State
from corral.sessions.survey import take_survey
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity
from corral.terminals.directory import TAB_VARIABLE, list_terminals, terminals_dir
from corral.top.trees import divide_processes, parents_first

METERED = frozenset({State.LIVE, State.ELSEWHERE})
"""Sessions that somebody serves; of those elsewhere the answer is that it is not known."""
_FOREIGN_PROC = "/proc does not show the processes of this PID namespace"


class Meter:
    """Takes snapshots of the machine; from the second on, it can say what was used since the one before."""

    def __init__(self) -> None:
        self._before: Snapshot | None = None

    def look(self) -> Metering:
        survey = take_survey(Selection(states=METERED))
        seen = list_seen(TAB_VARIABLE) if procfs.is_ours() else {}
        division = divide_processes(seen.values(), _served(survey.sessions, seen), *_terminals(seen))
        measured = _measure(seen, division)
        look = Snapshot(
            at=time.monotonic(), seen=seen, cpu_seconds={pid: one.cpu_seconds for pid, one in measured.items()}
        )
        rates = _Rates(self._before, look)
        self._before = look
        return _put_together(survey, seen, division, measured, rates)


def meter_session(session: Session) -> MeteredSession | None:
    """What one session uses; None when nobody serves it. All others are looked at too: they may share processes."""
    if session.state not in METERED:
        return None
    if session.state is not State.LIVE:
        return _unknown(session)
    found = (one for one in Meter().look().sessions if one.session.key == session.key)
    return next(found, None)


class _Rates:
    """CPU percent of processes since the snapshot before."""

    def __init__(self, before: Snapshot | None, after: Snapshot) -> None:
        self._spent = cpu_spent(before, after) if before is not None else None
        self._seconds = after.at - before.at if before is not None else 0.0

    def of(self, pids: Iterable[int]) -> float | None:
        """None for a first snapshot, and when none of these was measured before."""
        if self._spent is None or self._seconds <= 0:
            return None
        known = [self._spent[pid] for pid in pids if pid in self._spent]
        return 100 * sum(known) / self._seconds if known else None


def _served(sessions: Iterable[Session], seen: Mapping[int, SeenProcess]) -> dict[int, list[SessionKey]]:
    """The verified processes, as far as they are still the same."""
    served: dict[int, list[SessionKey]] = {}
    for session in sessions:
        for identity in session.verdict.processes if session.state is State.LIVE else ():
            if identity.pid in seen and is_same(seen[identity.pid], identity):
                served.setdefault(identity.pid, []).append(session.key)
    return served


def _terminals(seen: Mapping[int, SeenProcess]) -> tuple[dict[int, str], list[int]]:
    """The first program of each terminal of ours, and the holders; each only if it is still the same process."""
    tabs: dict[int, str] = {}
    holders: list[int] = []
    for terminal in list_terminals(terminals_dir()):
        child, holder = terminal.child, terminal.holder
        if child.pid in seen and is_same(seen[child.pid], child):
            tabs[child.pid] = terminal.tab
        if holder is not None and holder.pid in seen and is_same(seen[holder.pid], holder):
            holders.append(holder.pid)
    return tabs, holders


def _measure(seen: dict[int, SeenProcess], division: Division) -> dict[int, Use]:
    parts = [share.pids for share in division.shares.values()]
    parts += [tree.pids for tree in (*division.shared, *division.strays)]
    wanted = {pid for pids in parts for pid in pids}
    uses = ((pid, read_use(seen[pid], seen)) for pid in parents_first(seen.values()) if pid in wanted)
    return {pid: use for pid, use in uses if use is not None}


def _put_together(
    survey: Survey, seen: Mapping[int, SeenProcess], division: Division, measured: Mapping[int, Use], rates: _Rates
) -> Metering:
    def meter_trees(trees: Iterable[Tree]) -> tuple[MeteredTree, ...]:
        # A process that ended before it was measured is in no part.
        left = (structs.replace(tree, pids=_still(tree.pids, measured)) for tree in trees)
        return tuple(
            MeteredTree(tree=tree, name=seen[tree.pid].name, use=_sum(tree.pids, measured))
            for tree in left
            if tree.pids
        )

    return Metering(
        hostname=survey.hostname,
        taken_at=survey.taken_at,
        sessions=tuple(_meter(session, division, measured, rates) for session in survey.sessions),
        shared=meter_trees(division.shared),
        strays=meter_trees(division.strays),
        degraded=survey.degraded,
    )


def _still(pids: Iterable[int], measured: Mapping[int, Use]) -> tuple[int, ...]:
    return tuple(pid for pid in pids if pid in measured)


def _sum(pids: Iterable[int], measured: Mapping[int, Use]) -> Use:
    return sum((measured[pid] for pid in pids), Use())


def _meter(session: Session, division: Division, measured: Mapping[int, Use], rates: _Rates) -> MeteredSession:
    if session.state is not State.LIVE:
        return _unknown(session)
    share = division.shares.get(session.key, Share())
    pids = _still(share.pids, measured)
    shared = [tree for tree in division.shared if session.key in tree.sessions]
    reason = None
    if shared:
        names = ", ".join(f"pid {tree.pid} serves {len(tree.sessions)} sessions" for tree in shared)
        reason = f"{names}: what it uses is charged to none of them"
    elif not pids:
        reason = "its process has ended since" if procfs.is_ours() else _FOREIGN_PROC
    return MeteredSession(
        session=session,
        use=_sum(pids, measured) if pids else None,
        reason=reason,
        pids=pids,
        adopted=tuple(one for one in share.adopted if one.pid in measured),
        cpu_percent=rates.of(pids),
    )


def _unknown(session: Session) -> MeteredSession:
    return MeteredSession(session=session, use=None, reason=f"it can't be checked from here: {session.verdict.reason}")


# --- rates


class Snapshot(Struct, frozen=True, kw_only=True):
    """The machine at one moment."""

    at: float
    """In seconds of a clock that never steps."""
    seen: Mapping[int, SeenProcess]
    cpu_seconds: Mapping[int, float]
    """Of the processes that were measured, with the children that they had waited for."""


def cpu_spent(before: Snapshot, after: Snapshot) -> dict[int, float]:
    """CPU seconds of each process measured now, since the snapshot before.

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


def _passed_on(before: Snapshot, after: Snapshot) -> dict[int, float]:
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


def _is_in(look: Snapshot, process: SeenProcess) -> bool:
    found = look.seen.get(process.pid)
    return found is not None and found.start_ticks == process.start_ticks


# --- what /proc says; no rights are needed, and processes that end are left out


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)


def list_seen(variable: str) -> dict[int, SeenProcess]:
    """One snapshot of all processes that /proc shows, with the value of one variable of their environment."""
    seen: dict[int, SeenProcess] = {}
    for name in procfs.list_pids():
        account = procfs.read_account(name)
        if account is None or account.stat.is_kernel:
            continue
        pid = int(name)
        seen[pid] = SeenProcess(
            pid=pid,
            start_ticks=account.stat.start_ticks,
            parent_pid=account.stat.parent_pid,
            group=account.group,
            kernel_session=account.kernel_session,
            name=os.fsdecode(account.stat.comm),
            tab=_read_variable(pid, variable),
        )
    return seen


def is_same(seen: SeenProcess, identity: ProcessIdentity) -> bool:
    """Whether a process of the snapshot is the one that was verified, and still runs."""
    return seen.start_ticks == identity.start_ticks and read_identity(identity.pid) == identity


def read_use(seen: SeenProcess, snapshot: dict[int, SeenProcess]) -> Use | None:
    """What one process uses now, or None when it has ended, also if another process has its number now."""
    memory, unreadable = procfs.read_bytes(seen.pid, "smaps_rollup"), _count_hidden(seen.pid, snapshot)
    # Last: if it is still the same process, what was read before is its own.
    account = procfs.read_account(seen.pid)
    if account is None:
        return Use(unreadable=1) if _is_hidden(seen.pid) else None
    if account.stat.start_ticks != seen.start_ticks:
        return None
    cpu_seconds = account.cpu_ticks / procfs.TICKS_PER_SECOND
    if account.stat.state in "ZX":  # it has no memory any more, and its time is in nobody else's yet
        return Use(processes=1, cpu_seconds=cpu_seconds)
    pss = _PSS.search(memory or b"")
    return Use(
        processes=1,
        cpu_seconds=cpu_seconds,
        memory_bytes=int(pss[1]) * 1024 if pss else account.resident_pages * _PAGE_BYTES,
        memory_kind=MemoryKind.PSS if pss else MemoryKind.RSS,
        unreadable=unreadable,
    )


def _read_variable(pid: int, name: str) -> str | None:
    """As it was when the program began; None also when the environment may not be read."""
    for entry in (procfs.read_bytes(pid, "environ") or b"").split(b"\0"):
        if entry.startswith(name.encode() + b"="):
            return os.fsdecode(entry.partition(b"=")[2]) or None
    return None


def _count_hidden(pid: int, snapshot: dict[int, SeenProcess]) -> int:
    """Its children that the kernel names and /proc does not show us: another user's, under hidepid."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    named = {
        int(child)
        for thread in threads
        for child in (procfs.read_bytes(pid, f"task/{thread}/children") or b"").split()
        if int(child) not in snapshot
    }
    return sum(map(_is_hidden, named))


def _is_hidden(pid: int) -> bool:
    """Whether it exists, and /proc does not show it to us."""
    try:
        os.getpgid(pid)  # asks for existence without any permission, and without a signal
    except OSError:
        return False
    return procfs.read_account(pid) is None
