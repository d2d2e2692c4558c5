"""Keeping the ledger: find the files in which providers record usage, read what is new, store it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from zlib import crc32

from msgspec import Struct

from corral.engine.catalogue import all_providers
from corral.engine.gather import environment
from corral.engine.settings import read_settings
from corral.engine.told_sessions import ToldSessions
from corral.engine.usage_homes import list_usage_homes
from corral.model.key import Home
from corral.model.usage import ModelSource, UsageEvent, UsageSource
from corral.providers import Provider
from corral.sidecar.files import Unreadable, open_regular
from corral.store.cache import Cache
from corral.store.ledger import Ledger, Reading, SourceState
from corral.system import places

_HEAD_BYTES = 1024
_TAIL_BYTES = 1024
_READINGS_AT_ONCE = 200
_HURRIED_BYTES = 8 << 20
"""More than this of one file is not read in a hurry."""


class Progress(Struct, frozen=True):
    """How far a scan has come, for whoever shows it."""

    done_bytes: int
    total_bytes: int


def update_ledger(
    ledger: Ledger, tell: Callable[[Progress], None] | None = None, *, seconds: float | None = None
) -> bool:
    """Read everything that was appended since the last time. Safe beside others that do the same.

    With `seconds`, only as much as can be read in about that time: False when something is left for the next time.
    """
    if ledger.read_only:
        return False
    deadline = None if seconds is None else time.monotonic() + seconds
    env = environment(read_settings(), Cache(places.cache_dir()))
    told = ToldSessions(places.state_dir())
    known = ledger.source_states()
    pending: list[tuple[Provider, UsageSource, int]] = []
    for provider in all_providers():
        for home in list_usage_homes(provider, env, ledger, told):
            pending += _find_pending(provider, home, known)
    total = sum(size for _, _, size in pending)
    done = 0
    readings: list[Reading] = []
    models = _Models(told)
    complete = True
    for provider, source, size in pending:
        if deadline is not None and (size > _HURRIED_BYTES or time.monotonic() > deadline):
            complete = False
            continue
        if reading := _read(provider, source, known.get(source.path), models, told):
            readings.append(reading)
        done += size
        if len(readings) >= _READINGS_AT_ONCE:
            ledger.store(readings)
            readings = []
        if tell is not None:
            tell(Progress(done, total))
    if readings:
        ledger.store(readings)
    return complete


def _find_pending(
    provider: Provider, home: Home, known: dict[str, SourceState]
) -> Iterator[tuple[Provider, UsageSource, int]]:
    """The files that are new or not as they were, with the bytes there are to read."""
    for source in provider.list_usage_sources(home):
        try:
            seen = os.stat(source.path, follow_symlinks=False)
        except OSError:
            continue
        before = known.get(source.path)
        if before is None:
            yield provider, source, seen.st_size
        elif (before.device, before.inode, before.size, before.mtime_ns) != (
            seen.st_dev,
            seen.st_ino,
            seen.st_size,
            seen.st_mtime_ns,
        ):
            yield provider, source, max(0, seen.st_size - before.offset)


def _read(
    provider: Provider, source: UsageSource, before: SourceState | None, models: _Models, told: ToldSessions
) -> Reading | None:
    """What is new in one file; from the start when it is not the file it was."""
    fd = open_regular(source.path)
    if isinstance(fd, Unreadable):
        return None
    try:
        seen = os.fstat(fd)
        head = os.pread(fd, _HEAD_BYTES, 0)
        since = before.offset if before is not None and _goes_on(fd, head, before) else 0
        batch = provider.read_usage(source, since)
        tail = _sum_tail(fd, batch.next_offset)
    except OSError:
        return None
    finally:
        os.close(fd)
    state = SourceState(
        seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, crc32(head), len(head), batch.next_offset, tail
    )
    return Reading(
        source,
        state,
        batch,
        [models.of(provider, source, event) for event in batch.events],
        since,
        told.find_begin(provider.name, source.home, source.session_id) if source.session_id else None,
    )


def _goes_on(fd: int, head: bytes, before: SourceState) -> bool:
    """Whether all that was read is still there, as far as its first and its last bytes tell."""
    same_head = len(head) >= before.head_size and crc32(head[: before.head_size]) == before.head
    return same_head and _sum_tail(fd, before.offset) == before.tail


def _sum_tail(fd: int, end: int) -> int:
    """Checksum of the bytes before an offset; none of a file that is shorter."""
    size = min(_TAIL_BYTES, end)
    data = os.pread(fd, size, end - size)
    return crc32(data) if len(data) == size else -1


class _Models:
    """The model of events that do not name one: from the journal, else from the config as it is now.

    What is stored stays: a later change of the config prices no history anew.
    """

    def __init__(self, told: ToldSessions) -> None:
        self._told = told
        self._configured: dict[tuple[str, str], str | None] = {}

    def of(self, provider: Provider, source: UsageSource, event: UsageEvent) -> tuple[str | None, str]:
        if event.model is not None:
            return event.model, ModelSource.RECORDED
        told = self._told.find_model(provider.name, source.home, event.session_id, event.at)
        if told is not None:
            return told, ModelSource.JOURNAL
        home = (provider.name, source.home)
        if home not in self._configured:
            self._configured[home] = provider.read_default_model(source.home)
        configured = self._configured[home]
        return (configured, ModelSource.CONFIG) if configured else (None, ModelSource.UNKNOWN)
