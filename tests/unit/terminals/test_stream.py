"""The ring keeps the newest bytes by offset, and a viewer begins where it misses nothing or is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.terminals.ring import Ring
from corral.terminals.stream import Stream

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


def stream_of(*parts: bytes) -> Stream:
    stream = Stream(PAGE)
    for part in parts:
        stream.feed(part)
    return stream


def test_a_fresh_viewer_of_a_short_output_gets_all_of_it():
    beginning = stream_of(b"\x1b[?1049hhello").plan_beginning(None)
    assert (beginning.offset, beginning.repaint, beginning.before, beginning.after) == (0, False, b"", b"")


def test_a_viewer_that_comes_back_goes_on_where_it_was():
    stream = stream_of(b"line\n" * 3000)
    beginning = stream.plan_beginning(14_000)
    assert (beginning.offset, beginning.repaint, beginning.after) == (14_000, False, b"")


def test_a_viewer_that_was_away_too_long_is_told_of_a_gap_and_repainted():
    beginning = stream_of(b"line\n" * 3000).plan_beginning(100)
    assert (beginning.offset, beginning.repaint) == (100, True)


def test_an_offset_that_never_was_is_that_of_a_fresh_viewer():
    assert stream_of(b"hello").plan_beginning(6).offset == 0


def test_a_wrapped_ring_is_replayed_from_the_beginning_of_a_line_and_the_modes_set_after():
    stream = stream_of(b"\x1b[?2004h", b"line\n" * 3000)
    beginning = stream.plan_beginning(None)
    assert stream.ring.read(beginning.offset, 10) == b"line\nline\n"
    assert b"\x1b[?2004h" in beginning.after
    assert beginning.repaint


def test_on_the_alternate_screen_nothing_old_is_replayed_but_the_program_paints_anew():
    stream = stream_of(b"\x1b[?1049h", b"x" * 9000, b"\x1b[3")
    beginning = stream.plan_beginning(None)
    assert stream.ring.read(beginning.offset, 10) == b"\x1b[3"
    assert b"\x1b[?1049h" in beginning.before
    assert beginning.repaint


def test_a_wrapped_ring_without_a_line_is_not_replayed():
    stream = stream_of(b"x" * 9000)
    assert stream.plan_beginning(None).offset == stream.ring.head
