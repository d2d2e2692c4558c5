"""Which process is which session's: the processes of one snapshot divided, each into one part at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from corral.model.key import SessionKey
from corral.model.metering import Adopted, Division, Grounds, SeenProcess, Share, Tree

INIT = 1


class _Shared(NamedTuple):
    """The owner of what a process that serves several sessions does."""

    pid: int
    sessions: tuple[SessionKey, ...]


class _Stray(NamedTuple):
    """The owner of what may be a session's."""

    pid: int
    maybe: tuple[SessionKey, ...]
    reason: str


class _Nobody(NamedTuple):
    """The owner of what is below a terminal of ours, and not below its agent."""

    holder: int


_Server = SessionKey | _Shared
"""An owner that can have more than its descendants."""
_Owner = _Server | _Stray | _Nobody


class _Finding(NamedTuple):
    """What one kind of evidence says of a process whose parent is gone."""

    owners: frozenset[_Server]
    grounds: Grounds
    conclusive: bool
    reason: str


def divide_processes(
    processes: Iterable[SeenProcess],
    served: Mapping[int, Sequence[SessionKey]],
    tabs: Mapping[int, str] | None = None,
    holders: Iterable[int] = (),
) -> Division:
    """Divide a snapshot. `served`: the verified processes and the sessions that each serves; `tabs`: the first
    program of each terminal of ours; `holders`: the processes that keep those.

    A process is of the nearest verified process among itself and its ancestors. One that has lost its parent is
    a session's only by what the kernel or we ourselves say of it; if that is not conclusive, it is a stray.
    """
    division = _Dividing(processes, tabs or {})
    division.mark_served(served)
    division.mark_holders(holders)
    division.adopt()
    return division.result(served)


def parents_first(processes: Iterable[SeenProcess]) -> list[int]:
    """All PIDs, each after its parent. Read in this order, no child is counted that its parent has waited for."""
    seen = {process.pid: process for process in processes}
    depths: dict[int, int] = {}
    for pid in seen:
        path: list[int] = []
        at: int | None = pid
        while at is not None and at not in depths:
            path.append(at)
            at = _parent(seen, at)
        depth = depths[at] if at is not None else -1
        for step, one in enumerate(reversed(path), 1):
            depths[one] = depth + step
    return sorted(depths, key=lambda pid: (depths[pid], pid))


def _parent(seen: Mapping[int, SeenProcess], pid: int) -> int | None:
    """Its parent in the snapshot. A process that began later has only inherited the number of a parent that ended."""
    process = seen[pid]
    parent = seen.get(process.parent_pid)
    if parent is None or parent.pid == pid or parent.start_ticks > process.start_ticks:
        return None
    # Of equal age, and either could be the other's parent: the lines were read around a reuse of both numbers.
    if parent.start_ticks == process.start_ticks and _leads_back(seen, parent, pid):
        return None
    return parent.pid


def _leads_back(seen: Mapping[int, SeenProcess], process: SeenProcess, pid: int) -> bool:
    """Whether `pid` is an ancestor of a process, among those of the same age."""
    met: set[int] = set()
    at: SeenProcess | None = process
    while at is not None and at.start_ticks == process.start_ticks and at.pid not in met:
        if at.pid == pid:
            return True
        met.add(at.pid)
        at = seen.get(at.parent_pid)
    return False


class _Dividing:
    def __init__(self, processes: Iterable[SeenProcess], tabs: Mapping[int, str]) -> None:
        self._seen = {process.pid: process for process in processes}
        self._order = parents_first(self._seen.values())
        self._parents = {pid: _parent(self._seen, pid) for pid in self._order}
        self._tabs = tabs
        self._marks: dict[int, _Owner] = {}
        """Where a part begins: the process and all below it, down to the next mark."""
        self._adopted: dict[int, Grounds] = {}
        self._above: dict[int, set[_Owner]] = {}
        """Of an ancestor of verified processes: whose they are. It can't be their child."""

    def mark_served(self, served: Mapping[int, Sequence[SessionKey]]) -> None:
        for pid, sessions in served.items():
            keys = tuple(dict.fromkeys(sessions))
            if pid in self._seen and keys:
                owner = keys[0] if len(keys) == 1 else _Shared(pid, keys)
                self._marks[pid] = owner
                for ancestor in self._ancestors(pid):
                    self._above.setdefault(ancestor, set()).add(owner)

    def mark_holders(self, holders: Iterable[int]) -> None:
        """What a tab runs beside its agent is nobody's, also if the tab was opened from within another session."""
        for pid in holders:
            if pid in self._seen:
                self._marks.setdefault(pid, _Nobody(pid))

    def adopt(self) -> None:
        """In rounds: what was found to be a session's may lead a group of others. Each round adds, or is the last."""
        while True:
            owners = self._owners()
            findings = self._find(owners)
            found = {pid: one for pid, one in findings.items() if not isinstance(one, _Stray)}
            if not found:
                self._marks.update({pid: one for pid, one in findings.items() if isinstance(one, _Stray)})
                return
            for pid, (owner, grounds) in found.items():
                self._marks[pid] = owner
                self._adopted[pid] = grounds

    def result(self, served: Mapping[int, Sequence[SessionKey]]) -> Division:
        parts: dict[_Owner, list[int]] = {}
        for pid, owner in self._owners().items():
            parts.setdefault(owner, []).append(pid)
        keys = dict.fromkeys(key for sessions in served.values() for key in sessions)
        return Division(
            shares={key: self._share(parts.get(key, [])) for key in keys},
            shared=tuple(
                Tree(pid=owner.pid, sessions=owner.sessions, pids=tuple(pids))
                for owner, pids in parts.items()
                if isinstance(owner, _Shared)
            ),
            strays=tuple(
                Tree(pid=owner.pid, sessions=owner.maybe, reason=owner.reason, pids=tuple(pids))
                for owner, pids in parts.items()
                if isinstance(owner, _Stray)
            ),
        )

    def _share(self, pids: list[int]) -> Share:
        adopted = tuple(Adopted(pid=pid, grounds=self._adopted[pid]) for pid in pids if pid in self._adopted)
        return Share(pids=tuple(pids), adopted=adopted)

    def _owners(self) -> dict[int, _Owner]:
        """Of every process that has one: the nearest mark from it upwards."""
        owners: dict[int, _Owner] = {}
        for pid in self._order:
            parent = self._parents[pid]
            owner = self._marks.get(pid)
            if owner is None and parent is not None:
                owner = owners.get(parent)
            if owner is not None:
                owners[pid] = owner
        return owners

    def _ancestors(self, pid: int) -> Iterable[int]:
        while (parent := self._parents[pid]) is not None:
            yield parent
            pid = parent

    def _find(self, owners: Mapping[int, _Owner]) -> dict[int, tuple[_Server, Grounds] | _Stray]:
        groups, sessions, tabs = self._memberships(owners)
        found: dict[int, tuple[_Server, Grounds] | _Stray] = {}
        for pid in self._order:
            process = self._seen[pid]
            if pid in owners or not self._has_lost_its_parent(process):
                continue
            evidence = (
                self._of_tab(process, tabs),
                self._of_number(process, process.group, groups, owners, Grounds.GROUP),
                self._of_number(process, process.kernel_session, sessions, owners, Grounds.KERNEL_SESSION),
            )
            if said := [one for one in evidence if one is not None]:
                found[pid] = _decide(pid, said)
        return found

    def _memberships(self, owners: Mapping[int, _Owner]):
        groups: dict[int, set[_Server]] = {}
        sessions: dict[int, set[_Server]] = {}
        tabs: dict[str, set[_Server]] = {}
        for pid, owner in owners.items():
            if isinstance(owner, (_Stray, _Nobody)):
                continue
            process = self._seen[pid]
            groups.setdefault(process.group, set()).add(owner)
            sessions.setdefault(process.kernel_session, set()).add(owner)
            if pid in self._marks and pid not in self._adopted and (tab := self._tab_of(process)) is not None:
                tabs.setdefault(tab, set()).add(owner)
        return groups, sessions, tabs

    def _tab_of(self, process: SeenProcess) -> str | None:
        """The terminal that a verified process runs in: by the nearest program of one above it, or its environment."""
        for pid in (process.pid, *self._ancestors(process.pid)):
            if pid in self._tabs:
                return self._tabs[pid]
        return process.tab

    def _has_lost_its_parent(self, process: SeenProcess) -> bool:
        """Whether its parent is not the one that started it.

        Init takes over what has lost its parent, and so does a process that asked to (a subreaper). /proc does
        not say who asked. But a process is born into the kernel session of its parent: unless it leads one of
        its own, a parent in another session has not started it there. And nobody but the programs in a terminal
        of ours, and what they start, has the terminal's name.
        """
        if process.parent_pid == INIT:
            return True
        if (found := self._parents[process.pid]) is None:
            return process.parent_pid != 0  # 0: it is outside of our namespace
        parent = self._seen[found]
        if process.kernel_session != process.pid and parent.kernel_session != process.kernel_session:
            return True
        return process.tab is not None and parent.tab != process.tab

    def _of_tab(self, process: SeenProcess, tabs: Mapping[str, set[_Server]]) -> _Finding | None:
        owners = tabs.get(process.tab or "", set()) - self._above.get(process.pid, set())
        if not owners:
            return None
        reason = f"it was started in the terminal {process.tab}, in which several sessions run"
        return _Finding(frozenset(owners), Grounds.TAB, len(owners) == 1, reason)

    def _of_number(
        self,
        process: SeenProcess,
        number: int,
        members: Mapping[int, set[_Server]],
        owners: Mapping[int, _Owner],
        grounds: Grounds,
    ) -> _Finding | None:
        """A number is not given to anybody else while a member lives, so the process that has it leads the group."""
        theirs = members.get(number, set()) - self._above.get(process.pid, set())
        # 0 means none, and one that leads others was there before them.
        if not theirs or number in (0, process.pid):
            return None
        what = "process group" if grounds is Grounds.GROUP else "kernel session"
        leader = self._seen.get(number)
        if leader is None:
            reason = f"the leader of its {what} {number} has ended"
        elif owners.get(number) in theirs:
            reason = f"its {what} {number} has processes of several sessions in it"
        else:
            reason = f"its {what} is that of pid {number} ({leader.name}), which belongs to no session"
        return _Finding(frozenset(theirs), grounds, theirs == {owners.get(number)}, reason)


def _decide(pid: int, said: Sequence[_Finding]) -> tuple[_Server, Grounds] | _Stray:
    conclusive = [one for one in said if one.conclusive]
    owners = frozenset(owner for one in conclusive for owner in one.owners)
    if len(owners) == 1:
        return next(iter(owners)), conclusive[0].grounds
    maybe = {key: None for one in said for owner in one.owners for key in _keys(owner)}
    reason = "its terminal and its kernel session belong to different sessions" if owners else said[0].reason
    return _Stray(pid, tuple(sorted(maybe, key=_sort_key)), reason)


def _keys(owner: _Server) -> tuple[SessionKey, ...]:
    return owner.sessions if isinstance(owner, _Shared) else (owner,)


def _sort_key(key: SessionKey) -> tuple[str, ...]:
    return key.provider, key.home, key.scope, key.session_id
