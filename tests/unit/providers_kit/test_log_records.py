"""Logs by lines: what is as its CLI writes it is known at once, anything else is decoded, and what is whole is found."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from corral.model.usage import UsageSource
from corral.providers.kit.foreign_json import ForeignDecoder, split_records
from corral.providers.kit.log_records import LogForm, LogReading

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


def make_form() -> LogForm[Number]:
    return LogForm(
        "a test",
        ForeignDecoder(Number),
        {'{"': {"n": "taken", "dull": None}},
        last_field="n",
        has_time=lambda record: record.n > 0,
    )


class Reading(LogReading[Number]):
    """Notes the numbers, and how many lines were decoded."""

    def __init__(self, form: LogForm[Number], source: UsageSource, since: int, fd: int) -> None:
        super().__init__(form, source, since, fd)
        self.took: list[int] = []

    def take(self, record: Number) -> None:
        self.took.append(record.n)


@pytest.mark.parametrize(
    ("text", "took", "skips"),
    [
        (b'{"n":1}\n{"n":2}\n', [1, 2], 0),
        (b'{"dull"}\n{"n":1}\n{"dull"}\n{"dull"}\n{"n": 2}\n{"dull"}\n', [1, 2], 0),
        (b'{"dull and torn{"n":3}\n{"n":4}\n', [3, 4], 1),
        (b'{"dull": "and no usage went on"}\n{"n":4}\n', [4], 0),
        (b'{"dull": "and torn\n{"n":4}\n', [4], 1),
        (b'{"dull": "with a space behind it"} \r\n{"n":4}\n', [4], 0),
        (b'{"other": "' + b"x" * 20_000 + b'"}\n{"n":4}\n', [4], 0),
        (b'{"other": "' + b"x" * 20_000 + b'\n{"n":4}\n', [4], 1),
        (b'garbage\n{"n":4}\n', [4], 1),
        (b'{"n":5}{"n":6}\n', [5, 6], 0),
        (b'{"n":1}\n{"n":9}', [1], 0),
        (b'\n\n{"n":1}\n', [1], 0),
        (b'{"n":NaN,"n":7}\n', [7], 0),
    ],
    ids=[
        "as written",
        "dull between",
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
        "improper",
    ],
)
def test_lines_are_dull_or_decoded_and_none_is_lost(tmp_path: Path, text: bytes, took: list[int], skips: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(text)
    fd = os.open(path, os.O_RDONLY)
    try:
        source = UsageSource(provider="p", home="/h", scope="", session_id="s", path=str(path))
        reading = Reading(make_form(), source, 0, fd).read()
    finally:
        os.close(fd)
    assert (reading.took, len(reading.found.skipped)) == (took, skips)
    assert reading.found.next_offset == text.rfind(b"\n") + 1


KINDS = {
    '{"time": *, "type": "': {"spent": "taken", "text": None, "outer": "taken"},
    '{"time": *, "type": "outer", **"inner": {"type": "': {"spent": None, "text": "taken"},
    '{"head": "': {"first": None},
}


@pytest.mark.parametrize(
    ("line", "is_dull"),
    [
        (b'{"time": 1.5, "type": "text", "more": 1}', True),
        (b'{"time":null,"type":"text"}', True),
        (b'{"time": "now", "type": "text"}', True),
        (b'{"time": 1.5, "type": "spent"}', False),
        (b'{"time": 1.5, "type": "texts"}', False),
        (b'{"time": [1], "type": "text"}', False),
        (b'{"time": 1, "type": "outer", "a": "b", "c": null, "inner": {"type": "spent"}}', True),
        (b'{"time": 1, "type": "outer", "inner": {"type": "spent"}}', True),
        (b'{"time": 1, "type": "outer", "a": "b", "inner": {"type": "text"}}', False),
        (b'{"head": "first"}', True),
        (b'{"head": "second"}', False),
        (b' {"head": "first"}', False),
    ],
)
def test_one_table_says_which_lines_are_dull(line: bytes, is_dull: bool) -> None:
    form = LogForm("a test", ForeignDecoder(Number), KINDS, last_field="n", has_time=lambda _: True)
    assert (form.dull_line.match(line) is not None) == is_dull


@pytest.mark.parametrize(
    ("line", "is_marked"),
    [(b'{"x": "spent"}', True), (b'{"x": "text"}', True), (b'{"x": "first"}', False), (b'{"x": "\\"spent\\""}', False)],
)
def test_a_line_is_marked_by_a_kind_that_anybody_takes(line: bytes, is_marked: bool) -> None:
    form = LogForm("a test", ForeignDecoder(Number), KINDS, last_field="n", has_time=lambda _: True)
    assert bool(form.is_marked(line)) == is_marked


def test_a_record_on_a_line_of_several_is_found_by_the_first_beginning() -> None:
    form = LogForm("a test", ForeignDecoder(Number), KINDS, last_field="n", has_time=lambda _: True)
    pieces, damaged = split_records(b'{"time": 1, "type": "a"}{"time":2,"type":"b"}{"head": 1}', form.record_head)
    assert (pieces, damaged) == ([b'{"time": 1, "type": "a"}', b'{"time":2,"type":"b"}'], True)
