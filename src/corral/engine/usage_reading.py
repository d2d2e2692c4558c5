"""Reading usage logs into rows: one file from where the last reading ended, many of them by two processes."""

from __future__ import annotations

import marshal
import os
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from corral.engine.told_sessions import ToldSessions
from corral.engine.usage_types import UNREAD
from corral.model.usage import ModelSource, UsageEvent, UsageSource
from corral.providers import Provider
from corral.sidecar.files import Unreadable, open_regular
from corral.store.ledger_rows import Pricer, Reading, Rows, SourceState, to_unread
from corral.store.row_making import make_rows
from corral.system.descriptors import is_ready
from corral.system.stamps import may_fork
from corral.system.usage_batch import Gathered

_HEAD_BYTES = 1024
_TAIL_BYTES = 1024
_WORTH_FORKING = 16 << 20
"""Bytes to read; below, a second process costs more than it saves."""
_CHUNK_BYTES = 4 << 20
_CHUNK_FILES = 100
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031  # fcntl.F_SETPIPE_SZ
_LENGTH = struct.Struct("<I")
_RECORDED, _JOURNAL, _CONFIG, _UNKNOWN = (
    source.value for source in (ModelSource.RECORDED, ModelSource.JOURNAL, ModelSource.CONFIG, ModelSource.UNKNOWN)
)
"""As plain text: they cross a pipe."""


class Pending(NamedTuple):
    """A file with something to read, how it was when it was last read, and how many bytes there are."""

    provider: Provider
    source: UsageSource
    before: SourceState | None
    size: int
    former: UsageSource | None = None
    """What the ledger took the file for, if its lines counted otherwise then: they are read from the start again."""


class Reader:
    """Reads files, finds the models of what they tell, and prices it."""

    def __init__(self, pricer: Pricer, told: ToldSessions) -> None:
        self.pricer = pricer
        self._told = told
        self._configured: dict[tuple[str, str], tuple[str | None, str]] = {}

    def read(self, pending: Pending) -> Rows | None:
        """What is new in one file; from the start when it is not the file it was."""
        provider, source, before, _, former = pending
        fd = open_regular(source.path)
        if isinstance(fd, Unreadable):
            return None if fd.code == "io:ENOENT" else self._tell_unread(pending, fd.reason)
        try:
            seen = os.fstat(fd)
            head = os.pread(fd, _HEAD_BYTES, 0)
            goes_on = before is not None and former is None and _goes_on(fd, head, before)
            since = before.offset if before is not None and goes_on else 0
            batch = provider.read_usage(source, since, fd)
            wrong = None if former is None else provider.read_usage(former, 0, fd)
            tail = _sum_tail(fd, batch.next_offset)
        except OSError as error:
            return self._tell_unread(pending, error.strerror or str(error))
        finally:
            os.close(fd)
        state = SourceState(
            seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, crc32(head), len(head), batch.next_offset, tail
        )
        models = self._find_models(provider, source, batch.events)
        begun_at = self._told.find_begin(provider.name, source.home, source.session_id) if source.session_id else None
        return make_rows(Reading(source, state, batch, models, since, begun_at, wrong), self.pricer)

    def _tell_unread(self, pending: Pending, reason: str) -> Rows:
        """A skip, with a state that no file has: it is tried again whenever all is looked at."""
        state = to_unread(pending.before)
        found = Gathered(pending.source, state.offset)
        found.skip(state.offset, f"{UNREAD}: {reason}")
        return make_rows(Reading(pending.source, state, found.to_batch(), [], state.offset, None), self.pricer)

    def _find_models(
        self, provider: Provider, source: UsageSource, events: Sequence[UsageEvent]
    ) -> list[tuple[str | None, str]]:
        """The models of events; of those that name none: from the journal, else from the config as it is now.

        What is stored stays: a later change of the config prices no history anew.
        """
        home = (provider.name, source.home)
        if home not in self._configured:
            model = provider.read_default_model(source.home)
            self._configured[home] = (model, _CONFIG) if model else (None, _UNKNOWN)
        otherwise = self._configured[home]
        if not self._told.has_models(provider.name, source.home):
            return [otherwise if event.model is None else (event.model, _RECORDED) for event in events]
        found: list[tuple[str | None, str]] = []
        for event in events:
            if event.model is not None:
                found.append((event.model, _RECORDED))
            else:
                told = self._told.find_model(provider.name, source.home, event.session_id, event.at)
                found.append(otherwise if told is None else (told, _JOURNAL))
        return found


def _goes_on(fd: int, head: bytes, before: SourceState) -> bool:
    """Whether all that was read is still there, as far as its first and its last bytes tell."""
    same_head = len(head) >= before.head_size and crc32(head[: before.head_size]) == before.head
    return same_head and _sum_tail(fd, before.offset) == before.tail


def _sum_tail(fd: int, end: int) -> int:
    """Checksum of the bytes before an offset; none of a file that is shorter."""
    size = min(_TAIL_BYTES, end)
    data = os.pread(fd, size, end - size)
    return crc32(data) if len(data) == size else -1


def read_pending(reader: Reader, pending: Sequence[Pending]) -> Iterator[tuple[list[Rows], int]]:
    """Rows of some files at a time, and how many bytes those had. The order is not that of `pending`."""
    chunks = list(_make_chunks(pending))
    if sum(one.size for one in pending) < _WORTH_FORKING or len(chunks) < 2 or not may_fork():
        for chunk in chunks:
            yield _read_chunk(reader, chunk), _size(chunk)
        return
    yield from _Pair(reader, chunks).run()


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


def _read_chunk(reader: Reader, chunk: Sequence[Pending]) -> list[Rows]:
    return [rows for one in chunk if (rows := reader.read(one)) is not None]


def _size(chunk: Sequence[Pending]) -> int:
    return sum(one.size for one in chunk)


class _Pair:
    """This process and a child take chunks from one queue; the child's rows come back through a pipe."""

    def __init__(self, reader: Reader, chunks: list[list[Pending]]) -> None:
        self._reader = reader
        self._chunks = chunks

    def run(self) -> Iterator[tuple[list[Rows], int]]:
        queue, queue_end = os.pipe()
        results, results_end = os.pipe()
        _widen(results_end)
        # One byte says "the next one"; which that is, is its place in the queue, so the largest go first.
        os.write(queue_end, b"".join(_LENGTH.pack(number) for number in range(min(len(self._chunks), 16_000))))
        os.close(queue_end)
        child = os.fork()
        if child == 0:
            try:
                os.close(results)
                self._work(queue, results_end)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(results_end)
        done: set[int] = set()
        try:
            yield from self._share(queue, results, done)
        finally:
            os.close(queue)
            os.close(results)
            os.waitpid(child, 0)
        # What the child took and did not give back, if it died; and what did not fit into the queue.
        for number, chunk in enumerate(self._chunks):
            if number not in done:
                yield _read_chunk(self._reader, chunk), _size(chunk)

    def _share(self, queue: int, results: int, done: set[int]) -> Iterator[tuple[list[Rows], int]]:
        more, alive = True, True
        while more or alive:
            ready = alive and is_ready(results, 0.0 if more else None)
            if ready:
                found = _receive(results)
                if found is None:
                    alive = False
                    continue
                number, rows = found
                done.add(number)
                yield rows, _size(self._chunks[number])
            elif more:
                number = _take(queue)
                if number is None:
                    more = False
                    continue
                done.add(number)
                yield _read_chunk(self._reader, self._chunks[number]), _size(self._chunks[number])

    def _work(self, queue: int, results: int) -> None:
        while (number := _take(queue)) is not None:
            rows = [tuple(one) for one in _read_chunk(self._reader, self._chunks[number])]
            data = marshal.dumps((number, rows))
            packet = memoryview(_LENGTH.pack(len(data)) + data)
            while packet:
                packet = packet[os.write(results, packet) :]


def _take(queue: int) -> int | None:
    """The next chunk; reads of a few bytes are never torn between two processes."""
    word = os.read(queue, _LENGTH.size)
    return _LENGTH.unpack(word)[0] if len(word) == _LENGTH.size else None


def _receive(results: int) -> tuple[int, list[Rows]] | None:
    """None at the end, and also when the child died in the middle of a word."""
    head = _read_exactly(results, _LENGTH.size)
    data = _read_exactly(results, _LENGTH.unpack(head)[0]) if head else None
    if data is None:
        return None
    number, rows = marshal.loads(data)
    return number, [Rows(*one) for one in rows]


def _read_exactly(fd: int, length: int) -> bytes | None:
    parts: list[bytes] = []
    while length:
        part = os.read(fd, length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _widen(pipe: int) -> None:
    """So that the child need not wait while this process reads or stores."""
    import fcntl

    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _PIPE_BYTES)
    except OSError:
        pass  # a smaller one works as well, only slower
