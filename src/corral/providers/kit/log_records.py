"""Records of long logs: most lines are known without decoding, and what damaged ones still hold is found."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from corral.providers.kit.blocks import LARGEST_LINE, Block, read_blocks
from corral.providers.kit.foreign_json import NO_OBJECT, ForeignDecoder, is_object, split_records
from corral.providers.kit.transcripts import TAIL_BUDGET, open_transcript
from corral.providers.kit.usage_batch import Gathered
from corral.sidecar.files import Unreadable

T = TypeVar("T")
Take: TypeAlias = Callable[[T, bytes, int], None]
"""Takes a decoded record, its line, and where that begins in the file."""
TakeKnown: TypeAlias = Callable[[re.Match[bytes]], bool]
"""Takes a line that was known without decoding; False: it has to be decoded after all."""
_SHORT = 16 << 10
"""A line shorter than this is decoded at once; a longer one only if it has a marker."""
_BRACE = ord("}")
"""The last byte of every record. A dull line without it broke off."""
_LONGEST_END = 200
"""Bytes at the end of a line in which the mark of a record of usage lies."""


class LogForm(NamedTuple, Generic[T]):
    """How one CLI writes its log."""

    writer: str
    decoder: ForeignDecoder[T]
    record_head: re.Pattern[str]
    """Where a record begins, for lines that hold more or less than one."""
    line: re.Pattern[bytes]
    """Matches, from its start on, a line as this CLI writes it. The last group, a named one, says which kind it is."""
    usage_end: bytes
    """What the end of a record of usage has, and that of no dull line: there, one was torn and usage went on."""
    is_marked: Callable[[bytes], object]
    """Whether a line can hold what is counted."""
    has_time: Callable[[T], bool]
    """Whether a record has a time; one without it tells nothing."""


class Takers(NamedTuple, Generic[T]):
    """Who takes what a log holds."""

    decoded: Take[T]
    known: Sequence[TakeKnown | None]
    """By the number of the kind's group; None for dull lines."""


def make_known(line: re.Pattern[bytes], takers: dict[str, TakeKnown]) -> list[TakeKnown | None]:
    """Takers by the number of their group instead of its name."""
    known: list[TakeKnown | None] = [None] * (line.groups + 1)
    for kind, take in takers.items():
        known[line.groupindex[kind]] = take
    return known


def read_records(fd: int, stop: int | None, form: LogForm[T], found: Gathered, takers: Takers[T]) -> None:
    """Give every record from `found.next_offset` to `stop`, or to the last whole line."""
    for block in read_blocks(fd, found.next_offset, os.fstat(fd).st_size if stop is None else stop):
        if block.too_long:
            _pass_over(block, form, found, takers)
        else:
            _take_block(block, form, found, takers)
        found.next_offset = block.end


def list_earlier(path: str, before: int, form: LogForm[T], markers: tuple[bytes, ...]) -> Iterator[T | None]:
    """Marked records that lie before an offset, the last first; None where looking back tells no more."""
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return
    with transcript:
        transcript.size = min(transcript.size, before)
        for line in transcript.backward(TAIL_BUDGET):
            if any(marker in line.data for marker in markers):
                record = form.decoder.decode(line.data)
                if record is None or form.has_time(record):
                    yield record
        if transcript.exhausted:
            yield None


def _pass_over(block: Block, form: LogForm[T], found: Gathered, takers: Takers[T]) -> None:
    head = form.line.match(block.data, 0, block.length)
    if head is None or head.lastindex is None or takers.known[head.lastindex] is not None:
        found.skip(block.offset, f"a line longer than {LARGEST_LINE >> 20} MiB")


def _take_block(block: Block, form: LogForm[T], found: Gathered, takers: Takers[T]) -> None:
    offset, data, length, _, _ = block
    match, find, usage_end, known = form.line.match, data.find, form.usage_end, takers.known
    start = 0
    while start < length:
        end = find(b"\n", start, length)
        line = match(data, start, end)
        if line is not None:
            take = known[line.lastindex or 0]
            if take is not None:
                found.offset = offset + start
                done = take(line)
            else:
                ends = end - _LONGEST_END if end - start > _LONGEST_END else start
                done = data[end - 1] == _BRACE and find(usage_end, ends, end) < 0
        else:
            done = False
        if not done:
            found.offset = offset + start
            _take_line(bytes(data[start:end]), form, found, takers.decoded)
        start = end + 1


def _take_line(line: bytes, form: LogForm[T], found: Gathered, take: Take[T]) -> None:
    if len(line) < _SHORT or form.is_marked(line):
        record = form.decoder.decode(line)
        if record is not None:
            take(record, line, found.offset)
        elif form.is_marked(line):
            _take_pieces(line, form, found, take)
        elif not is_object(line):
            found.skip(found.offset, NO_OBJECT)
    elif not is_object(line):
        found.skip(found.offset, NO_OBJECT)


def _take_pieces(line: bytes, form: LogForm[T], found: Gathered, take: Take[T]) -> None:
    pieces, damaged = split_records(line, form.record_head)
    for piece in pieces:
        record = form.decoder.decode(piece)
        if record is not None:
            take(record, piece, found.offset)
        else:
            damaged = True
    if damaged or not pieces:
        found.skip(found.offset, f"not a record that {form.writer} writes, or its numbers are none")
