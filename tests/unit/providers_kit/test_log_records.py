"""Logs by lines: what is as its CLI writes it is known at once, anything else is decoded, and what is whole is found."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from corral.model.usage import UsageSource
from corral.providers.kit.foreign_json import ForeignDecoder, split_records
from corral.providers.kit.log_records import LogForm, Takers, make_known, read_records
from corral.providers.kit.usage_batch import Gathered

HEAD = re.compile(r'\{"n":')


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


class Number(msgspec.Struct):
    n: int


LINE = re.compile(rb'(?:(?P<dull>\{"dull")|(?P<known>\{"n":(\d+)\}\Z))')
FORM = LogForm(
    "a test", ForeignDecoder(Number), HEAD, LINE, b'"n":', re.compile(rb'"n"').search, lambda record: record.n > 0
)


@pytest.mark.parametrize(
    ("text", "known", "decoded", "skips"),
    [
        (b'{"n":1}\n{"n":2}\n', [1, 2], [], 0),
        (b'{"dull"}\n{"n":1}\n{"dull"}\n{"dull"}\n{"n": 2}\n{"dull"}\n', [1], [2], 0),
        (b'{"dull and torn{"n":3}\n{"n":4}\n', [4], [3], 1),
        (b'{"dull": "and no usage went on"}\n{"n":4}\n', [4], [], 0),
        (b'{"dull": "and torn\n{"n":4}\n', [4], [], 1),
        (b'{"dull": "with a space behind it"} \r\n{"n":4}\n', [4], [], 0),
        (b'{"other": "' + b"x" * 20_000 + b'"}\n{"n":4}\n', [4], [], 0),
        (b'{"other": "' + b"x" * 20_000 + b'\n{"n":4}\n', [4], [], 1),
        (b'garbage\n{"n":4}\n', [4], [], 1),
        (b'{"n":5}{"n":6}\n', [], [5, 6], 0),
        (b'{"n":1}\n{"n":9}', [1], [], 0),
        (b'\n\n{"n":1}\n', [1], [], 0),
        (b'{"n":77}\n', [], [77], 0),
    ],
    ids=[
        "known",
        "others are decoded",
        "torn",
        "dull",
        "dull and torn",
        "spaced",
        "long",
        "long and torn",
        "garbage",
        "glued",
        "not ended",
        "empty lines",
        "declined",
    ],
)
def test_lines_are_known_or_decoded_and_none_is_lost(
    tmp_path: Path, text: bytes, known: list[int], decoded: list[int], skips: int
) -> None:
    path = tmp_path / "log"
    path.write_bytes(text)
    found = Gathered(UsageSource(provider="p", home="/h", scope="", session_id="s", path=str(path)), 0)
    took: list[int] = []
    others: list[int] = []

    def take_known(line: re.Match[bytes]) -> bool:
        number = int(line[3])
        if number != 77:
            took.append(number)
        return number != 77

    takers = Takers[Number](
        lambda record, _line, _offset: others.append(record.n), make_known(LINE, {"known": take_known})
    )
    fd = os.open(path, os.O_RDONLY)
    try:
        read_records(fd, None, FORM, found, takers)
    finally:
        os.close(fd)
    assert (took, others, len(found.skipped)) == (known, decoded, skips)
    assert found.next_offset == text.rfind(b"\n") + 1
