"""Usage logs of one JSON record a line: read from an offset on, most lines passed over undecoded, damage said.

One table describes a log: for each beginning that a line can have, the kinds of records that follow it, and who takes a
record of that kind. A kind that nobody takes is dull. The pattern of lines that are not decoded, the search for lines
that count, and the calls for decoded records all come from this table:

    LOG = LogForm("some-cli", ForeignDecoder(Record), {'{"time": *, "type": "': {"spent": take_spent, "text": None}}, …)

In the text of a beginning `*` stands for one plain value, and `**` for any number of named ones. Inside JSON text
quotes are escaped, so that a name in quotes is a name and never something that somebody wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Self, TypeVar

from corral.model.usage import UsageBatch, UsageSource
from corral.providers.kit.blocks import LARGEST_LINE, Block, read_blocks
from corral.providers.kit.foreign_json import IMPROPER, NO_OBJECT, ForeignDecoder, is_object, split_records
from corral.providers.kit.transcripts import TAIL_BUDGET, open_transcript
from corral.providers.kit.usage_batch import Gathered
from corral.sidecar.files import Unreadable

T = TypeVar("T")
_SHORT = 16 << 10
"""A line shorter than this is decoded at once; a longer one only if it names a kind that counts."""
_BRACE = ord("}")
"""The last byte of every record. A dull line without it broke off."""
_LONGEST_END = 200
"""The last field of a record of usage begins within so many bytes of its end."""
_VALUE = r'(?:"[^"\\\n]*+"|[-+.0-9a-zE]++)'
_NAMED_VALUES = rf'(?:"[A-Za-z_]++": ?{_VALUE}, ?)*+'


class LogForm(Generic[T]):
    """How one CLI writes its log."""

    def __init__(
        self,
        writer: str,
        decoder: ForeignDecoder[T],
        kinds: Mapping[str, Mapping[str, object]],
        *,
        last_field: str,
        has_time: Callable[[T], bool],
    ) -> None:
        """`kinds` is the table; `last_field` is the one with which a record of usage ends."""
        counted = {kind for some in kinds.values() for kind, take in some.items() if take is not None}
        self.writer = writer
        self.decoder = decoder
        self.dull_line = re.compile(_make_dull_pattern(kinds).encode())
        """Matches the beginning of a line in which nothing counts."""
        self.is_marked = re.compile("|".join(re.escape(f'"{kind}"') for kind in sorted(counted)).encode()).search
        """Whether a line names a kind that counts."""
        self.record_head = re.compile(_to_pattern(next(iter(kinds))))
        """Where a record begins on a line that holds more or less than one: the first beginning of the table."""
        self.usage_end = f'"{last_field}":'.encode()
        """A dull line that ends with this was torn, and a record of usage was written behind it."""
        self.has_time = has_time
        """Whether a record has a time; one without it says nothing."""


def _make_dull_pattern(kinds: Mapping[str, Mapping[str, object]]) -> str:
    """The beginnings of the table with their dull kinds. What goes on where the first one ends is tried there."""
    first = next(iter(kinds))
    inside: list[str] = []
    beside: list[str] = []
    for begin, some in kinds.items():
        dull = "|".join(re.escape(kind) for kind, take in some.items() if take is None)
        rest = begin.removeprefix(first)
        (beside if rest == begin else inside).append(f'{_to_pattern(rest)}(?:{dull})"' if dull else "(?!)")
    return "|".join((f"{_to_pattern(first)}(?:{'|'.join(inside)})", *beside))


def _to_pattern(begin: str) -> str:
    escaped = re.escape(begin.replace(": ", ":").replace(", ", ",")).replace(":", ": ?").replace(",", ", ?")
    return escaped.replace(r"\*\*", _NAMED_VALUES).replace(r"\*", _VALUE)


class LogReading(Generic[T]):
    """One pass over one log, and what it has to know of the lines before. Derive, and take each record."""

    def __init__(self, form: LogForm[T], source: UsageSource, since: int, fd: int) -> None:
        self._form = form
        self.source = source
        self.since = since
        self.fd = fd
        self.found = Gathered(source, since)
        self.open_request: float | None = None
        """When the request was made that nothing has ended so far, in the log's own time."""
        self._knows_request = since == 0
        """False while only the lines before `since` show whether a request is open."""
        self._before: Self | None = None

    def take(self, record: T) -> None:
        """Count what a record says; it begins at `found.offset`."""
        raise NotImplementedError

    def decides_request(self, record: T) -> float | bool | None:
        """The time of a request that this record begins; False if it ends any; None if it says nothing of one."""
        raise NotImplementedError

    def read(self, stop: int | None = None) -> Self:
        """Take every record from `since` to `stop`, or to the last whole line."""
        for block in read_blocks(self.fd, self.since, os.fstat(self.fd).st_size if stop is None else stop):
            if not block.too_long:
                self._take_block(block)
            elif self._form.dull_line.match(block.data, 0, block.length) is None:
                self.found.skip(block.offset, f"a line longer than {LARGEST_LINE >> 20} MiB")
            self.found.next_offset = block.end
        return self

    def to_batch(self) -> UsageBatch:
        return self.found.to_batch()

    def begin_request(self, stamp: float) -> None:
        self.open_request, self._knows_request = stamp, True

    def end_request(self) -> None:
        self.open_request, self._knows_request = None, True

    def find_open_request(self) -> float | None:
        """`open_request`, looked for in the lines before `since` while those of this reading do not say."""
        if not self._knows_request:
            self.end_request()
            for record in self.list_earlier():
                decided = self.read_before().open_request if record is None else self.decides_request(record)
                if record is None or decided is not None:
                    self.open_request = decided or None
                    break
        return self.open_request

    def list_earlier(self) -> Iterator[T | None]:
        """Records that count, before `since`, the last first; None where looking back shows no more."""
        transcript = open_transcript(self.source.path)
        if isinstance(transcript, Unreadable):
            return
        with transcript:
            transcript.size = min(transcript.size, self.since)
            for line in transcript.backward(TAIL_BUDGET):
                if self._form.is_marked(line.data):
                    record = self._form.decoder.decode(line.data)
                    if record is None or self._form.has_time(record):
                        yield record
            if transcript.exhausted:
                yield None

    def read_before(self) -> Self:
        """All that is before this reading, for what its own lines do not say."""
        if self._before is None:
            self._before = type(self)(self._form, self.source, 0, self.fd).read(self.since)
        return self._before

    def _take_block(self, block: Block) -> None:
        offset, data, length, _, _ = block
        is_dull, usage_end, find = self._form.dull_line.match, self._form.usage_end, data.find
        view, decode, take = memoryview(data), self._form.decoder.decode_proper, self.take
        found, start = self.found, 0
        while start < length:
            end = find(b"\n", start, length)
            if (
                is_dull(data, start, end) is None
                or data[end - 1] != _BRACE
                or find(usage_end, end - _LONGEST_END if end - start > _LONGEST_END else start, end) >= 0
            ):
                found.offset = offset + start
                try:
                    record = decode(view[start:end]) if end - start < _SHORT else None
                except IMPROPER:
                    record = None
                if record is not None:
                    take(record)
                else:
                    self._take_line(bytes(view[start:end]))
            start = end + 1

    def _take_line(self, line: bytes) -> None:
        form = self._form
        if len(line) < _SHORT or form.is_marked(line):
            record = form.decoder.decode(line)
            if record is not None:
                self.take(record)
                return
            if form.is_marked(line):
                self._take_pieces(line)
                return
        if not is_object(line):
            self.found.skip(self.found.offset, NO_OBJECT)

    def _take_pieces(self, line: bytes) -> None:
        pieces, damaged = split_records(line, self._form.record_head)
        for piece in pieces:
            record = self._form.decoder.decode(piece)
            if record is not None:
                self.take(record)
            else:
                damaged = True
        if damaged or not pieces:
            writer = self._form.writer
            self.found.skip(self.found.offset, f"not a record that {writer} writes, or its numbers are wrong")
