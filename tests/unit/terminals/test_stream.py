"""The ring keeps the newest bytes by offset, and a viewer begins where it misses nothing or is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.terminals.screen import Screen
from corral.terminals.stream import Beginning, Ring, Stream

PAGE = 4096


@given(st.lists(st.binary(max_size=3 * PAGE), max_size=12), st.integers(0, 40 * PAGE), st.integers(1, 3 * PAGE))
def test_a_ring_reads_back_what_was_written_at_every_offset(parts, offset, limit):
    ring = Ring(PAGE)
    for part in parts:
        ring.append(part)
    everything = b"".join(parts)
    assert ring.head == len(everything)
    assert ring.oldest == max(0, len(everything) - PAGE)
    offset = min(max(offset, ring.oldest), ring.head)
    assert ring.read(offset, limit) == everything[offset : offset + limit]


@pytest.mark.parametrize("offset", [0, PAGE - 1, 3 * PAGE])
def test_a_ring_has_nothing_outside_its_bounds(offset):
    ring = Ring(PAGE)
    ring.append(b"x" * 2 * PAGE)
    with pytest.raises(ValueError, match="outside"):
        ring.read(offset, 1)


SIZE = (80, 24)


def stream_of(*parts: bytes) -> Stream:
    stream = Stream(PAGE, SIZE)
    for part in parts:
        stream.feed(part)
    return stream


def test_a_fresh_viewer_of_a_short_output_gets_all_of_it():
    assert stream_of(b"\x1b[?1049hhello").begin(None) == Beginning(0, 1, SIZE)


def test_a_viewer_that_comes_back_goes_on_where_it_was():
    assert stream_of(b"line\n" * 3000).begin(14_000) == Beginning(14_000, 1, SIZE)


def test_a_viewer_that_was_away_too_long_begins_where_it_was_and_is_told_of_a_gap_there():
    stream = stream_of(b"line\n" * 3000)
    assert stream.begin(100).offset == 100 < stream.ring.oldest


def test_an_offset_that_never_was_is_that_of_a_fresh_viewer():
    assert stream_of(b"hello").begin(6).offset == 0


@pytest.mark.parametrize("lines", [b"line %d\r\n", b"\x1b[32mline\x1b[0m %d\x1b[K\r\n", b"\x1b[Hline %d\r\n"])
def test_a_wrapped_output_is_a_picture_and_what_came_after_it(lines):
    everything = b"\x1b[?2004h" + b"".join(lines % n for n in range(5000))
    stream = Stream(PAGE * 16, SIZE)
    for start in range(0, len(everything), 1000):
        stream.feed(everything[start : start + 1000])
    beginning = stream.begin(None)
    assert stream.ring.oldest < beginning.offset <= stream.ring.head
    assert b"\x1b[?2004h" in beginning.picture
    again = Screen(*SIZE)
    again.feed(beginning.picture + stream.ring.read(beginning.offset, PAGE * 16))
    all_of_it = Screen(*SIZE)
    all_of_it.feed(everything)
    assert cells(again) == cells(all_of_it)


def cells(screen: Screen) -> list[object]:
    shown = screen.shown
    return [shown.x, shown.y, *((line.cells, line.looks) for line in shown.lines[shown.above :])]


def test_a_flood_of_lines_is_passed_over_and_not_read(monkeypatch):
    stream = Stream(1 << 20, SIZE)
    read: list[int] = []
    monkeypatch.setattr(Screen, "feed", lambda _self, data: read.append(len(data)))
    for n in range(400):
        stream.feed(b"\x1b[1mline\x1b[0m %d of many\r\n" % n * 500)
    assert read == []
    assert stream.ring.head > 4 << 20


def test_a_picture_in_the_midst_of_a_sequence_is_followed_by_that_sequence():
    stream = stream_of(b"\x1b[?1049h", b"x" * 9000, b"\x1b[3")
    beginning = stream.begin_now(whole=True, history=True)
    assert b"\x1b[?1049h" in beginning.picture
    assert stream.ring.read(beginning.offset, 10) == b"\x1b[3"


def test_a_string_whose_beginning_is_gone_is_begun_again_so_that_none_of_it_is_text():
    stream = Stream(1 << 18, SIZE)
    stream.feed(b"\x1b]52;c;")
    for _ in range(20):
        stream.feed(b"A" * 10_000)
    beginning = stream.begin_now(whole=True, history=True)
    screen = Screen(*SIZE)
    screen.feed(beginning.picture + b"AAAA\x07text")
    assert screen.normal.line(0).cells == list("text")


@pytest.mark.parametrize("name", ["feed", "resize"])
def test_a_fault_in_what_is_shown_is_told_and_ends_nothing(monkeypatch, name):
    told: list[str] = []
    stream = Stream(PAGE, SIZE, told.append)
    stream.feed(b"\x1b[?2004hbefore\r\n")
    stream.read_all()
    stream.feed(b"more")
    with monkeypatch.context() as broken:
        broken.setattr(Screen, name, lambda *_: 1 / 0)
        stream.resize(90, 20)
        stream.read_all()
    assert told == ["the screen is lost: ZeroDivisionError('division by zero')"]
    stream.feed(b"after")
    beginning = stream.begin_now(whole=True, history=True)
    assert b"after" in beginning.picture and b"\x1b[?2004h" in beginning.picture
    assert beginning.size == (90, 20)


def test_sizes_are_told_where_they_changed():
    stream = stream_of(b"one")
    stream.resize(90, 20)
    stream.feed(b"two")
    stream.resize(100, 30)
    assert [stream.sizes.at(offset) for offset in (0, 2, 3, 5, 6)] == [SIZE, SIZE, (90, 20), (90, 20), (100, 30)]
    assert stream.begin(None) == Beginning(0, 1, SIZE)
    assert stream.begin(2) == Beginning(2, 1, SIZE)
    assert stream.begin(3) == Beginning(3, 2, (90, 20))
    assert stream.begin_now(whole=True, history=True)[:3] == (6, 3, (100, 30))


def test_changes_of_size_without_end_cost_no_memory():
    stream = stream_of(b"text")
    for n in range(10_000):
        stream.resize(20 + n % 50, 10 + n % 7)
    assert stream.sizes.end - stream.sizes.first <= 1000
    assert stream.begin_now(whole=True, history=True).size == stream.sizes.at(4)
