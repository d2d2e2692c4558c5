"""Output goes from the holder to the page as it is; what floods together shares a small part of the server's time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.frames import Gap, Output, ProtocolError
from corral.server.terminal_socket import Pace
from corral.terminals.client import merge_output
from corral.terminals.protocol import OUTPUT, FrameReader, decode, encode


def split(*frames) -> list[tuple[int, bytes]]:
    return FrameReader().split(b"".join(map(encode, frames)))


def test_an_output_frame_carries_the_very_bytes_of_the_pages_message():
    ((kind, payload),) = split(Output(5, b"text", replay=True))
    assert (kind, payload) == (OUTPUT, b"\x01" + (5).to_bytes(8) + b"text")


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=9), st.integers(0, 1 << 40))
def test_output_that_goes_on_becomes_one_message(parts, offset):
    frames = []
    for part in parts:
        frames.append(Output(offset + sum(len(one.data) for one in frames), part))
    ((kind, payload),) = merge_output(split(*frames))
    assert decode(kind, payload) == Output(offset, b"".join(parts))


def test_what_does_not_go_on_stays_apart_and_in_order():
    frames = [Output(0, b"a", replay=True), Output(1, b"b"), Gap(2, 9), Output(9, b"c"), Output(11, b"d")]
    assert [decode(*one) for one in merge_output(split(*frames))] == frames


def test_output_without_its_offset_is_no_output():
    with pytest.raises(ProtocolError):
        merge_output([(OUTPUT, b"\0\0\0")])


def test_one_flood_is_not_slowed_and_several_are():
    pace = Pace()
    assert [pace.rest_seconds("one", 1 << 18, now) for now in (1.0, 1.1, 1.2)] == [0.0, 0.0, 0.0]
    assert pace.share_bytes(1 << 18) == 1 << 18
    two = [pace.rest_seconds("other", 1 << 17, 1.3) for _ in range(4)]
    three = [pace.rest_seconds("third", 1 << 17, 1.4) for _ in range(4)]
    assert two[:3] == three[:3] == [0.0] * 3  # not a flood yet
    assert 0.0 < two[3] < three[3]
    assert pace.share_bytes(1 << 18) < 1 << 17
    assert pace.rest_seconds("other", 1 << 20, 9.0) == 0.0  # the others have been quiet for long


def test_small_output_never_waits_and_no_rest_is_long():
    pace = Pace()
    for number in range(50):
        pace.rest_seconds(number, 1 << 20, 1.0)
    assert pace.rest_seconds("keys", 100, 1.0) == 0.0
    assert 0.0 < pace.rest_seconds("flood", 1 << 20, 1.0) <= 0.1


def test_a_hundred_screens_that_are_shown_again_are_no_flood():
    pace = Pace()
    assert [pace.rest_seconds(number, 1 << 18, 1.0) for number in range(100)] == [0.0] * 100
