"""Which sessions are one family: a fork begins with a copy of all that its parent's log says.

Sessions name the one that they were forked from. Where nobody names it any more (what said so is gone), the copies
show it: the log of a fork begins with the same bytes as that of another session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from corral.providers.kit.blocks import read_blocks
from corral.sidecar.files import Unreadable, open_regular

NAMED, ALIKE, ROOTED = 0, 1, 2
"""How well a family is known, as `UsageSource.certainty` has it."""
_MOST_FORKS = 32
_HEAD_BYTES = 4 << 10
_LEAST_BYTES = 64
"""Fewer bytes in common prove nothing."""


class Kin(NamedTuple):
    """What is known of where a session comes from."""

    lineage: tuple[str, ...]
    """The sessions before it that are named, the nearest first."""
    family: str
    """The first session of all, as far as known."""
    certainty: int
    untold: str | None = None
    """The session of which nothing says where it comes from."""

    def list_before(self, session_id: str) -> tuple[str, ...]:
        """The sessions that this one comes from, with its family."""
        return self.lineage if self.family in (session_id, *self.lineage) else (*self.lineage, self.family)


class Logs(NamedTuple):
    """Where the logs are, and how a fork says in its own that it is one: behind the copies, not of whom."""

    find_path: Callable[[str], str]
    fork_mark: bytes
    """How the line begins that says so, with the end of the line before."""

    def read_head(self, session_id: str) -> bytes:
        """Without the first line, which a fork may have written itself, up to where it says that it is a fork."""
        data = next(self._read(session_id, _HEAD_BYTES), b"")
        begin = data.find(b"\n")
        return data[begin:].partition(self.fork_mark)[0] if begin >= 0 else b""

    def is_fork(self, session_id: str) -> bool:
        return any(self.fork_mark in b"\n" + data for data in self._read(session_id, None))

    def _read(self, session_id: str, most: int | None) -> Iterator[bytes]:
        fd = open_regular(self.find_path(session_id))
        if isinstance(fd, Unreadable):
            return
        try:
            if most is not None:
                yield os.pread(fd, most, 0)
            else:
                for block in read_blocks(fd, 0, os.fstat(fd).st_size):
                    yield bytes(block.data[: block.length])
        except OSError:
            return
        finally:
            os.close(fd)


def find_kin(ids: Iterable[str], find_parent: Callable[[str], str | None], logs: Logs) -> dict[str, Kin]:
    """For each of the sessions. `find_parent` gives "" for one that was not forked, None where nothing says."""
    kin = {session_id: _follow(session_id, find_parent) for session_id in ids}
    known = all(found.certainty == ROOTED for found in kin.values())
    return kin if known else _compare(kin, logs)


def _follow(session_id: str, find_parent: Callable[[str], str | None]) -> Kin:
    lineage: list[str] = []
    name = session_id
    while len(lineage) < _MOST_FORKS:
        parent = find_parent(name)
        if parent is None:
            return Kin(tuple(lineage), name, NAMED, name)
        if not parent:
            return Kin(tuple(lineage), name, ROOTED)
        if parent in (session_id, *lineage):
            return Kin(tuple(lineage), min(session_id, *lineage), ROOTED)  # a circle, which no CLI makes
        lineage.append(parent)
        name = parent
    return Kin(tuple(lineage), name, NAMED)


def _compare(kin: dict[str, Kin], logs: Logs) -> dict[str, Kin]:
    """The same with those whose first session nobody names, as far as their logs show."""
    read_head = cache(logs.read_head)
    rooted = {found.family for found in kin.values() if found.certainty == ROOTED}
    groups = {found.family: {found.family} for found in kin.values()}
    """Names of one and the same family."""
    compared: set[str] = set()
    for session_id, mine in kin.items():
        if mine.certainty == ROOTED or not (mine.lineage or logs.is_fork(session_id)):
            continue
        head = read_head(session_id)
        others = [one for one in kin if one != session_id and _are_alike(head, read_head(one))]
        alike = {kin[one].family for one in others}
        compared.update([session_id, *others] if others else ())
        # Those that are no forks are strangers to one another, however their logs begin.
        for name in [min(alike & rooted)] if alike & rooted else alike:
            joined = groups[name] | groups[mine.family]
            groups.update(dict.fromkeys(joined, joined))
    found: dict[str, Kin] = {}
    for session_id, mine in kin.items():
        names = groups[mine.family]
        first = min(names & rooted or names)
        if mine.certainty < ROOTED and (session_id in compared or first != mine.family):
            mine = mine._replace(family=first, certainty=ROOTED if first in rooted else ALIKE)
        found[session_id] = mine
    return found


def _are_alike(head: bytes, other: bytes) -> bool:
    length = min(len(head), len(other))
    return length >= _LEAST_BYTES and head[:length] == other[:length]
