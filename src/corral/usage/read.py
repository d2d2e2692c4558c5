"""Reading usage logs into rows and storing them: one file from where the last reading ended, many by two processes."""

from __future__ import annotations

import gc
import marshal
import os
import struct
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple
from zlib import crc32

from corral.machine.descriptors import is_ready
from corral.machine.stamps import may_fork
from corral.model.usage import ModelSource, UsageEvent, UsageSource
from corral.model.usage_report import UNREAD
from corral.providers.asking import say_error
from corral.providers.contract import Provider
from corral.providers.kit.usage_batch import Gathered
from corral.sidecar.files import Unreadable, open_regular
from corral.usage.homes import ReportedSessions
from corral.usage.ledger import Ledger
from corral.usage.rows import Pricer, Reading, Rows, SourceState, make_rows, to_unread

_HEAD_BYTES = 1024
_TAIL_BYTES = 1024
_WORTH_FORKING = 16 << 20
"""Bytes to read; below, a second process costs more than it saves."""
_CHUNK_BYTES = 4 << 20
_CHUNK_FILES = 100
_PIPE_BYTES = 1 << 20
_OF_CHILD = (0, 2, 4)
"""Of every five chunks."""
_SET_PIPE_SIZE = 1031  # fcntl.F_SETPIPE_SZ
_LENGTH = struct.Struct("<I")
_RECORDED, _JOURNAL, _CONFIG, _UNKNOWN = (
    source.value for source in (ModelSource.RECORDED, ModelSource.JOURNAL, ModelSource.CONFIG, ModelSource.UNKNOWN)
)
"""As plain text: they cross a pipe."""


class Progress(NamedTuple):
    """How far a scan has come, for whoever shows it."""

    done_bytes: int
    total_bytes: int


OnProgress = Callable[[Progress], None]
"""Hears how far a reading has come."""


class Pending(NamedTuple):
    """A file with something to read, how it was when it was last read, and how many bytes there are."""

    provider: Provider
    source: UsageSource
    before: SourceState | None
    size: int
    former: UsageSource | None = None
    """What the ledger took the file for, if its lines counted otherwise then: they are read from the start again."""
    basis: str | None = None
    """As a `Reading` has it."""


class Reader:
    """Reads files, finds the models of their events, and prices them."""

    def __init__(self, pricer: Pricer, reported: ReportedSessions) -> None:
        self.pricer = pricer
        self._reported = reported
        self._configured: dict[tuple[str, str], tuple[str | None, str]] = {}

    def read(self, pending: Pending) -> Rows | None:
        """What is new in one file; from the start when it is not the file it was."""
        provider, source, before, _, former, basis = pending
        fd = open_regular(source.path)
        if isinstance(fd, Unreadable):
            return None if fd.code == "io:ENOENT" else self.note_unread(pending, fd.reason)
        try:
            seen = os.fstat(fd)
            head = os.pread(fd, _HEAD_BYTES, 0)
            goes_on = before is not None and former is None and _goes_on(source, seen, fd, head, before)
            since = before.offset if before is not None and goes_on else 0
            batch = provider.usage.read(source, since, fd)
            was = None if former is None else (former, provider.usage.read(former, 0, fd))
            tail = 0 if source.is_table else _sum_tail(fd, batch.next_offset)
            models = self._find_models(provider, source, batch.events)
        except OSError as error:
            return self.note_unread(pending, error.strerror or str(error))
        except Exception as error:  # noqa: BLE001 - whatever a provider raises costs this one file
            return self.note_unread(pending, say_error(error))
        finally:
            os.close(fd)
        state = SourceState(
            seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, crc32(head), len(head), batch.next_offset, tail
        )
        begun_at = self._reported.find_begin(provider.name, source.home, source.session_id)
        return make_rows(Reading(source, state, batch, models, since, begun_at, was, basis), self.pricer)

    def note_unread(self, pending: Pending, reason: str) -> Rows:
        """A skip, with a state that no file has: it is tried again with every scan. Until then the ledger has
        what it took the file for."""
        source = pending.former or pending.source
        state = to_unread(pending.before)
        found = Gathered(source, state.offset)
        found.skip(state.offset, f"{UNREAD}: {reason}")
        reading = Reading(source, state, found.to_batch(), [], state.offset, basis=pending.basis)
        return make_rows(reading, self.pricer)

    def _find_models(
        self, provider: Provider, source: UsageSource, events: Sequence[UsageEvent]
    ) -> list[tuple[str | None, str]]:
        """The models of events; of those that name none: from the journal, else from the config as it is now.

        What is stored stays: a later change of the config does not price history again.
        """
        home = (provider.name, source.home)
        if home not in self._configured:
            model = provider.usage.read_default_model(source.home)
            self._configured[home] = (model, _CONFIG) if model else (None, _UNKNOWN)
        otherwise = self._configured[home]
        if not self._reported.has_models(provider.name, source.home):
            return [otherwise if event.model is None else (event.model, _RECORDED) for event in events]
        found: list[tuple[str | None, str]] = []
        for event in events:
            if event.model is not None:
                found.append((event.model, _RECORDED))
            else:
                model = self._reported.find_model(provider.name, source.home, event.session_id, event.at)
                found.append(otherwise if model is None else (model, _JOURNAL))
        return found


def _goes_on(source: UsageSource, seen: os.stat_result, fd: int, head: bytes, before: SourceState) -> bool:
    """Whether all that was read is still there, as far as its first and its last bytes show.

    A table of the same database is asked from where its provider said: its bytes change anywhere.
    """
    if source.is_table:
        return (seen.st_dev, seen.st_ino) == (before.device, before.inode)
    same_head = len(head) >= before.head_size and crc32(head[: before.head_size]) == before.head
    return same_head and _sum_tail(fd, before.offset) == before.tail


def _sum_tail(fd: int, end: int) -> int:
    """Checksum of the bytes before an offset; none of a file that is shorter."""
    size = min(_TAIL_BYTES, end)
    data = os.pread(fd, size, end - size)
    return crc32(data) if len(data) == size else -1


def read_pending(reader: Reader, pending: Sequence[Pending]) -> Generator[tuple[list[Rows], int]]:
    """Rows of some files at a time, and how many bytes those had. The order is not that of `pending`."""
    chunks = list(_make_chunks(pending))
    if sum(one.size for one in pending) < _WORTH_FORKING or len(chunks) < 2 or not may_fork():
        for chunk in chunks:
            yield _read_chunk(reader, chunk)
        return
    # This process stores what both read: the child gets the larger part.
    theirs = [chunk for number, chunk in enumerate(chunks) if number % 5 in _OF_CHILD]
    left = len(theirs)
    child, results = _start_child(reader, theirs)
    try:
        for number, chunk in enumerate(chunks):
            if number % 5 not in _OF_CHILD:
                yield _read_chunk(reader, chunk)
            while left and is_ready(results, 0.0) and (found := _receive(results)) is not None:
                left -= 1
                yield found
        while left and (found := _receive(results)) is not None:
            left -= 1
            yield found
    finally:
        os.close(results)
        os.waitpid(child, 0)
    for chunk in theirs[len(theirs) - left :]:  # the child died
        yield _read_chunk(reader, chunk)


def _make_chunks(pending: Sequence[Pending]) -> Iterator[list[Pending]]:
    chunk: list[Pending] = []
    size = 0
    for one in pending:
        chunk.append(one)
        size += one.size
        if size >= _CHUNK_BYTES or len(chunk) >= _CHUNK_FILES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _read_chunk(reader: Reader, chunk: Sequence[Pending]) -> tuple[list[Rows], int]:
    return [rows for one in chunk if (rows := reader.read(one)) is not None], sum(one.size for one in chunk)


def _start_child(reader: Reader, chunks: Sequence[Sequence[Pending]]) -> tuple[int, int]:
    """A process that reads these chunks, and a pipe through which it sends what is in each, in their order."""
    results, end = os.pipe()
    with suppress(OSError):  # a smaller pipe works as well, only slower: the child waits while this process stores
        import fcntl

        fcntl.fcntl(end, _SET_PIPE_SIZE, _PIPE_BYTES)
    child = os.fork()
    if child == 0:
        try:
            os.close(results)
            for chunk in chunks:
                rows, size = _read_chunk(reader, chunk)
                data = marshal.dumps(([tuple(one) for one in rows], size))
                packet = memoryview(_LENGTH.pack(len(data)) + data)
                while packet:
                    packet = packet[os.write(end, packet) :]
            os._exit(0)
        finally:
            os._exit(1)
    os.close(end)
    return child, results


def _receive(results: int) -> tuple[list[Rows], int] | None:
    """None at the end, and also when the child died in the middle of a word."""
    head = _read_exactly(results, _LENGTH.size)
    data = _read_exactly(results, _LENGTH.unpack(head)[0]) if head else None
    if data is None:
        return None
    rows, size = marshal.loads(data)
    return [Rows(*one) for one in rows], size


def _read_exactly(fd: int, length: int) -> bytes | None:
    parts: list[bytes] = []
    while length:
        part = os.read(fd, length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


_ROWS_AT_ONCE = 20_000
HURRIED_BYTES = 8 << 20
"""More than this of one file is not read in a hurry."""


def read_and_store(
    ledger: Ledger,
    reader: Reader,
    pending: Sequence[Pending],
    on_progress: OnProgress | None,
    deadline: float | None,
    memos: Mapping[str, bytes] | None = None,
) -> list[Pending]:
    """Read and store; what is left when the time is up. `memos` are kept with the last of it."""
    with _no_collecting():
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
            count += sum(len(rows.events) + len(rows.actions) for rows in some)
            done += size
            if count >= _ROWS_AT_ONCE:
                ledger.store_rows(waiting, reader.pricer)
                waiting, count = [], 0
            if on_progress is not None:
                on_progress(Progress(done, total))
        if waiting or memos or not ledger.is_priced_by(reader.pricer.stamp):
            ledger.store_rows(waiting, reader.pricer, memos)
        return left


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
