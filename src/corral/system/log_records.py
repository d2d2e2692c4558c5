"""Records of long logs: most lines are never decoded, and what damaged ones still hold is found."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from corral.sidecar.files import Unreadable, open_regular
from corral.system.blocks import LARGEST_LINE, Block, Find, find_lines, read_blocks
from corral.system.foreign_json import ForeignDecoder, split_records
from corral.system.transcripts import TAIL_BUDGET, open_transcript
from corral.system.usage_batch import Gathered

T = TypeVar("T")
_SHORT = 16 << 10
"""A line shorter than this is decoded at once; a longer one only if it has a marker."""


class LogForm(NamedTuple, Generic[T]):
    """How one CLI writes its log."""

    writer: str
    decoder: ForeignDecoder[T]
    record_head: re.Pattern[str]
    """Where a record begins, for lines that hold more or less than one."""
    is_dull: Find
    find_edge: Find
    """Both as `find_lines` wants them."""
    is_marked: Callable[[bytes], object]
    """Whether a line can hold what is counted."""
    has_time: Callable[[T], bool]
    """Whether a record has a time; one without it tells nothing."""


def read_records(
    path: str, stop: int | None, form: LogForm[T], found: Gathered, take: Callable[[T, bytes, int], None]
) -> None:
    """Give every record from `found.next_offset` to `stop`, or to the last whole line; note what can't be read."""
    fd = open_regular(path)
    if isinstance(fd, Unreadable):
        found.skip(found.next_offset, f"can't be read: {fd.reason}")
        return
    with io.FileIO(fd) as file:
        for block in read_blocks(file, found.next_offset, os.fstat(fd).st_size if stop is None else stop):
            _take_block(block, form, found, take)
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


def _take_block(block: Block, form: LogForm[T], found: Gathered, take: Callable[[T, bytes, int], None]) -> None:
    if block.too_long:
        if not form.is_dull(block.data, 0, block.length):
            found.skip(block.offset, f"a line longer than {LARGEST_LINE >> 20} MiB")
        return
    decode = form.decoder.decode
    for start, line in find_lines(block, form.is_dull, form.find_edge):
        if len(line) < _SHORT or form.is_marked(line):
            found.offset = block.offset + start
            record = decode(line)
            if record is not None:
                take(record, line, found.offset)
            elif form.is_marked(line):
                _take_pieces(line, form, found, take)


def _take_pieces(line: bytes, form: LogForm[T], found: Gathered, take: Callable[[T, bytes, int], None]) -> None:
    pieces, damaged = split_records(line, form.record_head)
    for piece in pieces:
        record = form.decoder.decode(piece)
        if record is not None:
            take(record, piece, found.offset)
        else:
            damaged = True
    if damaged or not pieces:
        found.skip(found.offset, f"not a record that {form.writer} writes, or its numbers are none")
