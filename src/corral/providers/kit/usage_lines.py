"""Usage logs of which few lines count: one table of kinds tells which are decoded, and which records are taken."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Set
from typing import Generic, NamedTuple, Protocol, TypeVar

from corral.providers.kit.blocks import LARGEST_LINE, read_blocks
from corral.providers.kit.foreign_json import NO_OBJECT, ForeignDecoder, is_object, split_records
from corral.providers.kit.usage_batch import Gathered

UNREADABLE = "not a record that can be read"
_EARLY = 320
"""A record's type is written this early, before anything that a tool has said."""


class TypedRecord(Protocol):
    """What a record has to be told apart by."""

    type: str
    subtype: str | None


R = TypeVar("R")
T = TypeVar("T", bound=TypedRecord)


class UsageKind(NamedTuple, Generic[R]):
    """Records of one type that count."""

    take: Callable[[Gathered, R, bytes], None]
    """Is given the record and its line. `Gathered.offset` is where that line begins."""
    subtypes: frozenset[str | None] = frozenset({None})
    without: str | None = None
    """A field that makes a record not count."""


def _is_never_dull(line: bytearray) -> bool:
    return False


class LineForm(NamedTuple, Generic[R]):
    """How one CLI writes a log of JSON lines."""

    decoder: ForeignDecoder[R]
    head: re.Pattern[str]
    """Where a record begins, for lines that hold more or less than one."""
    take: Callable[[Gathered, R, bytes], None]
    may_count: Callable[[bytes], object] = bytes.strip
    """Whether a line can hold what is counted. Of other lines only the ends are checked."""
    is_dull: Callable[[bytearray], bool] = _is_never_dull
    """Whether the beginning of a line that is too long to be read shows that nothing in it counts."""


def make_form(decoder: ForeignDecoder[T], first: str, kinds: Mapping[str, UsageKind[T]], dull: Set[str]) -> LineForm[T]:
    """The form of a log whose records begin with the field `first` and have a type: a kind that counts, or a dull one.

    Names are searched for with their quotes: in a text, quotes are escaped.
    """
    early = re.compile(f'"type":"(?:{"|".join(sorted(dull))})"'.encode()).search
    again = f'{{"{first}"'.encode()
    marks = [
        (f'"{word}"'.encode(), f'"{kind.without}"'.encode() if kind.without else None)
        for name, kind in kinds.items()
        for word in ({name} if None in kind.subtypes else kind.subtypes)
    ]

    def is_dull(line: bytes | bytearray) -> bool:
        return early(line, 0, _EARLY) is not None

    def may_count(line: bytes) -> bool:
        if early(line, 0, _EARLY) and line.find(again, 1) < 0:
            return False
        for mark, without in marks:  # noqa: SIM110 - a generator for every line would cost more than the search
            if mark in line and (without is None or without not in line):
                return True
        return False

    def take(found: Gathered, record: T, line: bytes) -> None:
        kind = kinds.get(record.type)
        if kind and record.subtype in kind.subtypes and (kind.without is None or getattr(record, kind.without) is None):
            kind.take(found, record, line)

    return LineForm(decoder, re.compile(rf'\{{"{first}": ?"'), take, may_count, is_dull)


def read_lines(fd: int, form: LineForm[R], found: Gathered) -> None:
    """Takes every record that counts, from `found.next_offset` to the last whole line."""
    may_count = form.may_count
    for block in read_blocks(fd, found.next_offset, os.fstat(fd).st_size):
        data, start = block.data, 0
        if block.too_long:
            if not form.is_dull(data):
                found.skip(block.offset, f"a line longer than {LARGEST_LINE >> 20} MiB")
            start = block.length
        while (stop := data.find(b"\n", start, block.length)) >= 0:
            line = bytes(data[start:stop])
            if may_count(line):
                found.offset = block.offset + start
                _take_line(line, form, found)
            elif not (line.startswith(b"{") and line.endswith(b"}")) and not is_object(line):
                found.skip(block.offset + start, NO_OBJECT)
            start = stop + 1
        found.next_offset = block.end


def _take_line(line: bytes, form: LineForm[R], found: Gathered) -> None:
    record = form.decoder.decode(line)
    if record is not None:
        form.take(found, record, line)
        return
    pieces, damaged = split_records(line, form.head)
    for piece in pieces:
        record = form.decoder.decode(piece)
        if record is not None:
            form.take(found, record, piece)
        else:
            damaged = True
    if damaged or not pieces:
        found.skip(found.offset, UNREADABLE)
