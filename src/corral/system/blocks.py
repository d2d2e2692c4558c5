"""Long line files in blocks of whole lines: bounded memory, one buffer, and a line too long to hold passed over."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

CHUNK = 1 << 20
LARGEST_LINE = 16 << 20

Find = Callable[[bytearray, int, int], re.Match[bytes] | None]
"""`match` or `search` of a pattern."""


class Block(NamedTuple):
    """Whole lines at the head of a buffer that the next block overwrites, or the head of one line too long to read."""

    offset: int
    data: bytearray
    length: int
    end: int
    too_long: bool = False


def read_blocks(file: io.FileIO, begin: int, end: int) -> Iterator[Block]:
    """The lines that lie whole between two offsets. A line too long for memory is passed over."""
    buffer = bytearray(min(CHUNK, max(end - begin, 1)))
    kept = 0
    """Bytes at the head of the buffer that belong to a line whose end was not met yet."""
    file.seek(begin)
    while begin + kept < end and (count := _read_into(file, memoryview(buffer)[kept : end - begin])):
        filled = kept + count
        length = buffer.rfind(b"\n", kept, filled) + 1
        if length:
            yield Block(begin, buffer, length, begin + length)
            begin, kept = begin + length, filled - length
            buffer[:kept] = buffer[length:filled]
        elif filled < len(buffer):
            kept = filled
        elif filled <= LARGEST_LINE:
            kept = filled
            buffer = buffer + bytes(min(filled, LARGEST_LINE + 1 - filled))
        else:
            line_end = _find_line_end(file, begin + filled, end)
            if line_end is None:
                return
            yield Block(begin, buffer, filled, line_end, too_long=True)
            begin, kept = line_end, 0
            file.seek(begin)


def find_lines(block: Block, is_dull: Find, find_edge: Find) -> Iterator[tuple[int, bytes]]:
    """The block's lines that are not dull, with their place in it.

    `is_dull` knows a dull line at its start. `find_edge` finds a newline that no dull line follows; or, with a group,
    one at the end of a line that only begins like a dull one: it was torn, and a record went on behind it.
    """
    data, length = block.data, block.length
    start = done = 0
    plain = False
    while start < length:
        if plain or not is_dull(data, start, length):
            done = data.find(b"\n", start, length) + 1
            yield start, bytes(data[start : done - 1])
        edge = find_edge(data, max(start, done - 1), length)
        if edge is None:
            return
        plain = edge.lastindex is None
        if not plain:
            before = data.rfind(b"\n", 0, edge.start()) + 1
            if before >= max(start, done):
                yield before, bytes(data[before : edge.start()])
        start = edge.end()


def _find_line_end(file: io.FileIO, position: int, end: int) -> int | None:
    buffer = bytearray(CHUNK)
    while position < end and (count := _read_into(file, memoryview(buffer)[: end - position])):
        newline = buffer.find(b"\n", 0, count)
        if newline >= 0:
            return position + newline + 1
        position += count
    return None


def _read_into(file: io.FileIO, view: memoryview) -> int:
    try:
        return file.readinto(view) or 0
    except OSError:
        return 0
