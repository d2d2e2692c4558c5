"""Long line files in blocks of whole lines: bounded memory, buffers used again, a line too long to hold passed over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

CHUNK = 256 << 10
LARGEST_LINE = 16 << 20

_idle: list[bytearray] = []
"""Buffers that no reading uses now: to make one costs more than to read a small file."""


class Block(NamedTuple):
    """Whole lines at the head of a buffer that the next block overwrites, or the head of one line too long to read."""

    offset: int
    data: bytearray
    length: int
    end: int
    too_long: bool = False


def read_blocks(fd: int, begin: int, end: int) -> Iterator[Block]:
    """The lines that are whole between two offsets. A line too long for memory is passed over."""
    try:
        buffer = _idle.pop()
    except IndexError:
        buffer = bytearray(CHUNK)
    try:
        yield from _read_blocks(fd, begin, end, buffer)
    finally:
        _idle.append(buffer)


def _read_blocks(fd: int, begin: int, end: int, buffer: bytearray) -> Iterator[Block]:
    kept = 0
    """Bytes at the head of the buffer that belong to a line whose end was not met yet."""
    while begin + kept < end and (count := _read_into(fd, memoryview(buffer)[kept : end - begin], begin + kept)):
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
            line_end = _find_line_end(fd, begin + filled, end)
            if line_end is None:
                return
            yield Block(begin, buffer, filled, line_end, too_long=True)
            begin, kept = line_end, 0


def _find_line_end(fd: int, position: int, end: int) -> int | None:
    buffer = bytearray(CHUNK)
    while position < end and (count := _read_into(fd, memoryview(buffer)[: end - position], position)):
        newline = buffer.find(b"\n", 0, count)
        if newline >= 0:
            return position + newline + 1
        position += count
    return None


def _read_into(fd: int, view: memoryview, offset: int) -> int:
    try:
        return os.preadv(fd, [view], offset)
    except OSError:
        return 0
