"""Sessions whose files are looked at: a bucket in which none changed is known whole, else one by one.

Every file that a record rests on is looked at for itself. The directory's time shows only names that come and go:
a file that is written in place leaves it alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from corral.machine.stamps import FIELDS, Group, unpack
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord

_SETTLED_NS = 100_000_000
"""A change within one tick of the clock leaves the same times: what is younger than this is not kept."""


class Stamped(NamedTuple):
    """The sessions of one bucket, by name, and the stamps of `files` in each."""

    bucket: str
    ids: Sequence[str]
    files: Sequence[str]
    stamps: bytes


def make_group(bucket: str, ids: Sequence[str], files: Sequence[str]) -> Group:
    """What to look at, so that the stamps are those of a `Stamped`."""
    return Group(bucket, [f"{one}/{file}" for one in ids for file in files])


def is_settled(stamps: Sequence[int]) -> bool:
    """Whether the last change of all that was stamped is so long ago that a next one would show."""
    return max(*stamps[::FIELDS], *stamps[FIELDS - 1 :: FIELDS]) < time.time_ns() - _SETTLED_NS


def list_stamped(
    seen: Stamped,
    known: Known,
    outside: object,
    fingerprint: Callable[[str], tuple[int, ...]],
    read: Callable[[str], SessionRecord],
) -> Iterator[SessionRecord | Resting]:
    """The sessions of one bucket.

    `outside` is all that records depend on beside the stamps, said in the same words in every run; `fingerprint` is
    the part of it that concerns one session.
    """
    bucket, ids, files, stamps = seen
    seal = b"\0".join((os.fsencode("\0".join(ids)), stamps, os.fsencode(repr(outside))))
    settled = known.find_settled(bucket, seal)
    if settled is not None:
        yield from settled
        return
    all_settled = True
    numbers = iter(unpack(stamps))
    for session_id, looks in zip(ids, zip(*[numbers] * (len(files) * FIELDS), strict=True), strict=True):
        path = f"{bucket}/{session_id}"
        if max(looks) < 0 and not os.path.lexists(path):
            continue  # it went while we looked
        stamp = (*looks, *fingerprint(session_id))
        record = known.find(path, stamp)
        if record is None:
            is_old = is_settled(looks)
            record = read(session_id)
            if is_old:
                known.keep(path, stamp, record)
            else:
                all_settled = False
        yield record
    if all_settled:
        known.settle(bucket, seal)
