"""Sessions whose directory and log are looked at: a bucket in which nothing changed is known whole, else one by one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

from corral.model.known import Known
from corral.model.record import Resting, SessionRecord
from corral.system.stamps import FIELDS, unpack

_SETTLED_NS = 100_000_000
"""A change within one tick of the clock leaves the same mtime: what is younger than this is not kept."""
_BOTH = 2 * FIELDS


def find_without_log(ids: Sequence[str], stamps: bytes) -> list[str]:
    """The sessions whose second stamp, that of the log, says that nothing is there."""
    if not ids:
        return []
    logs = memoryview(stamps).cast("q")[FIELDS::_BOTH].tolist()
    return [session_id for session_id, mtime in zip(ids, logs, strict=True) if mtime < 0]


def list_stamped(
    bucket: str,
    ids: Sequence[str],
    stamps: bytes,
    known: Known,
    outside: object,
    fingerprint: Callable[[str], tuple[int, ...]],
    read: Callable[[str, float], SessionRecord],
) -> Iterator[SessionRecord | Resting]:
    """The sessions of one bucket. `stamps` are of the directory and the log of each.

    `outside` is all that records depend on beside the stamps, told in the same words in every run; `fingerprint` is
    the part of it that concerns one session. `read` is given the id and when the directory was changed.
    """
    seal = b"\0".join((os.fsencode("\0".join(ids)), stamps, os.fsencode(repr(outside))))
    settled = known.find_settled(bucket, seal)
    if settled is not None:
        yield from settled
        return
    settled_before = time.time_ns() - _SETTLED_NS
    all_settled = True
    numbers = iter(unpack(stamps))
    for session_id, seen in zip(ids, zip(*[numbers] * _BOTH, strict=True), strict=True):
        if seen[0] < 0:
            continue  # it went while we looked
        path = f"{bucket}/{session_id}"
        stamp = (*seen, *fingerprint(session_id))
        record = known.find(path, stamp)
        if record is None:
            record = read(session_id, seen[0] / 1e9)
            if max(seen[0], seen[FIELDS]) < settled_before:
                known.keep(path, stamp, record)
            else:
                all_settled = False
        yield record
    if all_settled:
        known.settle(bucket, seal)
