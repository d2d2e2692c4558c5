"""Qwen Code transcripts that are empty, torn, odd or another session's: told, and never hidden."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.record import SessionRecord, TurnState
from corral.model.restore import Refusal
from corral.providers.kit.conversations import DAMAGED, FOREIGN_ID
from corral.providers.qwen_code import PROVIDER as qwen_code
from tests.providers.qwen_support import FORK, NEW_ID, Place, record
from tests.providers.reading import read_bytes


def test_an_empty_file_is_not_durable(place: Place) -> None:
    found = place.write(b"")
    assert (found.durable, found.not_durable_reason, found.turn) == (
        False,
        "its transcript is empty",
        TurnState.NONE,
    )


def test_nothing_but_garbage_is_not_durable(place: Place) -> None:
    found = place.write(b"garbage\n", b"\x00\xff\n")
    assert (found.durable, found.turn) == (False, TurnState.UNREADABLE)
    assert DAMAGED in found.notes


def test_records_of_another_session_are_told_and_not_resumed(place: Place) -> None:
    found = place.write(record(sessionId=FORK))
    assert FOREIGN_ID in found.notes
    refused = qwen_code.transcript.read_guard(found)
    assert refused is not None
    assert refused.reason is Refusal.IDENTITY_INVALID


def test_a_torn_last_line_never_changes_what_came_before(place: Place) -> None:
    whole = record(uuid="a") + record("assistant", "answer", uuid="b", parentUuid="a")
    torn = record(text="the next prompt", uuid="c", parentUuid="b")
    for length in range(len(torn) + 1):
        found = place.write(whole, torn[:length])
        complete = length >= len(torn) - 1
        assert found.turn is (TurnState.OPEN if complete else TurnState.ENDED), length
        assert found.durable
        assert DAMAGED not in found.notes


ODD = [
    b'{"type":"user","message":{"parts":[{"text":"n","thoughtSignature":NaN}]},"x":NaN}\n',
    b'{"type":"user","message":{"parts":[{"text":"n"}]},"x":18446744073709551616}\n',
    b'{"type":"user","message":{"parts":[{"text":"\\ud800 n"}]}}\n',
    b'{"type":"user","message":{"parts":null}}\n',
    b'{"type":"holiday"}\n',
    b'{"type":7}\n',
    b"[" * 5000 + b"]" * 5000 + b"\n",
    b'{"type":"user","x":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    b"null\n",
    b"\n\n\n",
    b'{"type":"assistant","message":"text"}\n',
    b'{"type":"user","timestamp":"yesterday","cwd":null}\n',
    b'{"type":"user","timestamp":"9999999-01-01"}\n',
]


@pytest.mark.parametrize("odd", ODD)
def test_odd_lines_never_hide_a_session(place: Place, odd: bytes) -> None:
    for lines in ((odd,), (odd, record()), (record(), odd), (record(), odd, record("assistant", "x"))):
        found = place.write(*lines)
        msgspec.json.encode(found)
    assert found.turn is TurnState.ENDED


@given(st.binary(max_size=400))
def test_any_bytes_are_read_as_something(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("any")
    spot = Place(root)
    spot.chats.mkdir(parents=True)
    msgspec.json.encode(spot.write(record(), data))
    assert isinstance(spot.write(data), SessionRecord)


def test_a_line_of_300_mb_costs_little_and_is_told(place: Place) -> None:
    path = place.transcript(NEW_ID)
    with path.open("wb") as file:
        file.truncate(300 << 20)
    before = read_bytes()
    found = place.records()[NEW_ID]
    assert read_bytes() - before < 64 << 20
    assert found.turn is TurnState.UNREADABLE
    assert found.notes
    assert found.work_dir is None
