"""Storing what a reader finds, some files at a time, and copying the ledger when that has changed it."""

from __future__ import annotations

import gc
import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from corral.engine.account import Progress, Tell
from corral.engine.usage_reading import Pending, Reader, read_pending
from corral.store.ledger import Ledger
from corral.store.ledger_backup import back_up, is_due
from corral.store.ledger_rows import Rows

_ROWS_AT_ONCE = 20_000
HURRIED_BYTES = 8 << 20
"""More than this of one file is not read in a hurry."""


def read_and_store(
    ledger: Ledger,
    reader: Reader,
    pending: Sequence[Pending],
    tell: Tell | None,
    deadline: float | None,
    memos: Mapping[str, bytes] | None = None,
) -> list[Pending]:
    """Read and store; what is left when the time is up. `memos` are kept with the last of it."""
    with _no_collecting():
        return _read_and_store(ledger, reader, pending, tell, deadline, memos)


@contextmanager
def _no_collecting() -> Generator[None]:
    """Rows hold no cycles, and there are many: looking for some among them took a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read_and_store(
    ledger: Ledger,
    reader: Reader,
    pending: Sequence[Pending],
    tell: Tell | None,
    deadline: float | None,
    memos: Mapping[str, bytes] | None,
) -> list[Pending]:
    total, done = sum(one.size for one in pending), 0
    waiting: list[Rows] = []
    count = 0
    left: list[Pending] = []
    again = [one for one in pending if one.former is not None]
    pending = [one for one in pending if one.former is None]
    if deadline is not None and sum(one.size for one in again) > HURRIED_BYTES:
        left += again
    elif again:
        # In one piece: what one of a family counts otherwise, the others do not.
        ledger.store_rows([rows for one in again if (rows := reader.read(one)) is not None], reader.pricer)
        done += sum(one.size for one in again)
    found = read_pending(reader, pending) if deadline is None else _read_in_time(reader, pending, deadline, left)
    for some, size in found:
        waiting += some
        count += sum(len(rows.events) + len(rows.deeds) for rows in some)
        done += size
        if count >= _ROWS_AT_ONCE:
            ledger.store_rows(waiting, reader.pricer)
            waiting, count = [], 0
        if tell is not None:
            tell(Progress(done, total))
    if waiting or memos or not ledger.is_priced_by(reader.pricer.stamp):
        ledger.store_rows(waiting, reader.pricer, memos)
    return left


def _read_in_time(
    reader: Reader, pending: Sequence[Pending], deadline: float, left: list[Pending]
) -> Iterator[tuple[list[Rows], int]]:
    """As much as there is time for, and one at least: where looking around takes all of it, it comes on still."""
    has_read = False
    for one in pending:
        if one.size > HURRIED_BYTES or (has_read and time.monotonic() > deadline):
            left.append(one)
        elif (rows := reader.read(one)) is not None:
            has_read = True
            yield [rows], one.size


def finish(ledger: Ledger) -> None:
    """Copy the ledger, if something was stored. Raises Damaged: damage must not take the place of copies without it."""
    if ledger.changed and is_due(ledger):
        if not ledger.just_built:
            ledger.checks.all()
        # Without its copy the ledger is as good as before; the next change tries again.
        with suppress(OSError, sqlite3.Error):
            back_up(ledger)
