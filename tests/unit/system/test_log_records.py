"""Lines that hold more or less than one record: what is whole is found, and the rest is said."""

from __future__ import annotations

import re

import pytest

from corral.system.blocks import Block, find_lines
from corral.system.foreign_json import split_records

HEAD = re.compile(r'\{"n":')
is_dull = re.compile(rb"dull").match
find_edge = re.compile(rb"\n(?:(?<=tail\n)()|(?!\Z|dull))").search


@pytest.mark.parametrize(
    ("line", "pieces", "damaged"),
    [
        (b'{"n":1}', [b'{"n":1}'], False),
        (b'{"n":1}{"n":2}', [b'{"n":1}', b'{"n":2}'], False),
        (b'{"n":1} {"n":2} ', [b'{"n":1}', b'{"n":2}'], False),
        (b'{"n":1,"text":"to{"n":2}', [b'{"n":2}'], True),
        (b'{"n":1,"text":"to{"n":2}{"n":3}', [b'{"n":2}', b'{"n":3}'], True),
        (b'{"n":1}{"n":2,"te', [b'{"n":1}'], True),
        (b'{"n":1}rest', [b'{"n":1}'], True),
        (b'{"n":' * 100_000, [], True),
        (b'{"n":"\xff"}', ['{"n":"\ufffd"}'.encode()], False),
        (b"", [], False),
    ],
    ids=["one", "two", "spaced", "torn before", "torn before two", "torn after", "rest", "deep", "no UTF-8", "empty"],
)
def test_whole_records_are_found_on_a_line_that_is_not_one(line: bytes, pieces: list[bytes], damaged: bool) -> None:
    assert split_records(line, HEAD) == (pieces, damaged)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"dull\na\ndull\ndull\nb\ndull\n", [b"a", b"b"]),
        (b"dull\ndull then tail\ndull\na\n", [b"dull then tail", b"a"]),
        (b"dull then tail\na tail\nb\n", [b"dull then tail", b"a tail", b"b"]),
        (b"a tail\ndull\ndull then tail\n", [b"a tail", b"dull then tail"]),
        (b"dull\n", []),
        (b"\n\na\n", [b"", b"", b"a"]),
    ],
)
def test_dull_lines_are_passed_by_unless_they_end_like_another(text: bytes, found: list[bytes]) -> None:
    block = Block(0, bytearray(text + b"rest of the buffer"), len(text), len(text))
    lines = list(find_lines(block, is_dull, find_edge))
    assert [line for _, line in lines] == found
    assert all(text[start : start + len(line)] == line for start, line in lines)
