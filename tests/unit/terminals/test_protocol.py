"""Frames survive the wire, however it cuts them, and nothing malformed gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.frames import (
    Ask,
    Attach,
    Attached,
    End,
    Exit,
    Failed,
    Gap,
    Hello,
    Info,
    Input,
    Leave,
    Modes,
    Output,
    ProtocolError,
    Resize,
    Size,
    Unknown,
    Visible,
    Welcome,
)
from corral.terminals.protocol import MAGIC, MAX_FRAME, FrameReader, choose_version, encode

u16, u64 = st.integers(0, 2**16 - 1), st.integers(0, 2**64 - 1)
FRAMES = st.one_of(
    st.builds(Hello, u16, u16),
    st.builds(Attach, st.none() | u64, u16, u16, st.booleans()),
    st.builds(Input, st.binary(max_size=300), st.booleans()),
    st.builds(Resize, u16, u16),
    st.builds(Visible, st.booleans()),
    st.just(Ask()),
    st.just(End()),
    st.just(Leave()),
    st.builds(Welcome, u16, st.text(max_size=20)),
    st.builds(Attached, u64, u64, u64, u16, u16),
    st.builds(Output, u64, st.binary(max_size=300), st.booleans()),
    st.builds(Gap, u64, u64),
    st.builds(Modes, st.binary(max_size=50)),
    st.builds(Size, u16, u16),
    st.builds(Exit, st.integers(-(2**31), 2**31 - 1)),
    st.builds(Info, st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4)),
    st.builds(Failed, st.text(max_size=9), st.text(max_size=30)),
)


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(frames, cuts):
    data = b"".join(map(encode, frames))
    reader, found, position, turn = FrameReader(), [], 0, 0
    while position < len(data):
        step = cuts[turn % len(cuts)]
        found += reader.feed(data[position : position + step])
        position, turn = position + step, turn + 1
    assert found == frames
    assert [type(one) for one in found] == [type(one) for one in frames]


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_an_error(data):
    try:
        FrameReader().feed(data)
    except ProtocolError:
        pass


@pytest.mark.parametrize("length", [0, MAX_FRAME + 1, 2**32 - 1])
def test_a_frame_of_impossible_length_is_an_error_before_it_is_waited_for(length):
    with pytest.raises(ProtocolError, match=str(length)):
        FrameReader().feed(length.to_bytes(4) + b"x")


def test_a_kind_of_the_future_is_passed_over():
    assert FrameReader().feed(b"\0\0\0\3\xc8ab" + encode(Ask())) == [Unknown(0xC8), Ask()]


def test_fields_of_the_future_are_passed_over():
    frame = encode(Resize(80, 24)) + b"more"
    assert FrameReader().feed(len(frame[4:]).to_bytes(4) + frame[4:]) == [Resize(80, 24)]


def test_a_hello_of_another_protocol_is_an_error():
    data = encode(Hello()).replace(MAGIC, b"x" * len(MAGIC))
    with pytest.raises(ProtocolError, match="name"):
        FrameReader().feed(data)


@pytest.mark.parametrize(("lowest", "highest", "chosen"), [(1, 1, 1), (1, 9, 2), (2, 9, 2), (3, 9, None), (0, 0, None)])
def test_the_highest_version_that_both_speak_is_chosen(lowest, highest, chosen):
    assert choose_version(Hello(lowest, highest)) == chosen
