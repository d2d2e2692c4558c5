"""Which sessions of kimi-code are one family: a fork begins with a copy of all that its parent's logs say.

A fork's state.json names its parent, and its logs say `forked` behind the copies, but not of whom. Where nobody names
the parent any more (its own state.json is gone, or a session between it and its first one), the copies themselves tell:
the log begins with the same bytes as that of another session of the bucket.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from corral.model.key import is_valid_id
from corral.providers.kimi_code.state import State, read_state
from corral.sidecar.files import Unreadable, open_regular
from corral.system.blocks import read_blocks
from corral.system.usage_batch import clean_word

LOG = "agents/main/wire.jsonl"
NAMED, ALIKE, ROOTED = 0, 1, 2
_MOST_FORKS = 32
_HEAD_BYTES = 4 << 10
_LEAST_BYTES = 64
"""Fewer bytes in common prove nothing."""
_FORKED = b'\n{"type":"forked"'


class Kin(NamedTuple):
    """What is known of where a session comes from."""

    lineage: tuple[str, ...]
    """The sessions before it that are named, the nearest first."""
    family: str
    """The first session of all, as far as known."""
    certainty: int
    """As a `UsageSource` has it."""
    unread: str | None = None
    """The file that would tell more, if it were there or could be read."""


def find_kin(bucket: str, states: Mapping[str, State | None]) -> dict[str, Kin]:
    """For every session of a bucket that has logs; None stands for a state.json that can't be used."""
    known = dict(states)
    kin = {session_id: _follow(bucket, session_id, known) for session_id in states}
    if all(found.certainty == ROOTED for found in kin.values()):
        return kin
    return _compare(kin, _Heads(bucket))


def _follow(bucket: str, session_id: str, known: dict[str, State | None]) -> Kin:
    lineage: list[str] = []
    name = session_id
    while len(lineage) < _MOST_FORKS:
        if name not in known:
            found = read_state(f"{bucket}/{name}/state.json") if is_valid_id(name) else None
            known[name] = found if isinstance(found, State) else None
        state = known[name]
        if state is None:
            return Kin(tuple(lineage), name, NAMED, f"{bucket}/{name}/state.json")
        # The state of another session: somebody copied its directory.
        parent = clean_word(state.forked_from if state.id == name else state.id)
        if not parent:
            return Kin(tuple(lineage), name, ROOTED)
        if parent in (session_id, *lineage):
            return Kin(tuple(lineage), min(session_id, *lineage), ROOTED)  # a circle, which no CLI makes
        lineage.append(parent)
        name = parent
    return Kin(tuple(lineage), name, NAMED)


class _Heads:
    """How logs begin, read when first asked for."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._heads: dict[str, bytes] = {}

    def find(self, session_id: str) -> bytes:
        """Without the first line, which a fork may have written itself, up to where it says that it is a fork."""
        if session_id not in self._heads:
            data = b"".join(self._read(session_id, _HEAD_BYTES))[:_HEAD_BYTES]
            begin = data.find(b"\n")
            self._heads[session_id] = data[begin:].partition(_FORKED)[0] if begin >= 0 else b""
        return self._heads[session_id]

    def is_fork(self, session_id: str) -> bool:
        return any(_FORKED in b"\n" + data for data in self._read(session_id, None))

    def _read(self, session_id: str, most: int | None) -> Iterator[bytes]:
        fd = open_regular(f"{self._bucket}/{session_id}/{LOG}")
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


def _compare(kin: dict[str, Kin], heads: _Heads) -> dict[str, Kin]:
    """The same with those whose first session nobody names, as far as their logs tell."""
    rooted = {found.family for found in kin.values() if found.certainty == ROOTED}
    groups = {found.family: {found.family} for found in kin.values()}
    """Names of one and the same family."""
    compared: set[str] = set()
    for session_id, mine in kin.items():
        if mine.certainty == ROOTED or not (mine.lineage or heads.is_fork(session_id)):
            continue
        others = _list_alike(session_id, kin, heads)
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


def _list_alike(session_id: str, kin: Mapping[str, Kin], heads: _Heads) -> list[str]:
    head = heads.find(session_id)
    return [one for one in kin if one != session_id and _are_alike(head, heads.find(one))]


def _are_alike(head: bytes, other: bytes) -> bool:
    length = min(len(head), len(other))
    return length >= _LEAST_BYTES and head[:length] == other[:length]
