"""Modes are followed through any cutting of the output, and come back on another terminal."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.terminals.modes import ModeReader, Modes

TUI = (
    b"text\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002;1006h\x1b[?1004h\x1b[?25l\x1b]0;a title\x1b\\"
    b"\x1b[>1u\x1b[>3u\x1b[<u\x1b[38;5;12mcolour\x1b[0m\x1b[4 q\x1bP+q544e\x1b\\\x1b(B\x1b[>4;2m\xe2\x94\x80"
)


def read(*parts: bytes) -> ModeReader:
    reader = ModeReader()
    for part in parts:
        reader.feed(part)
    return reader


def after(*parts: bytes) -> Modes:
    return read(*parts).modes


def test_a_full_screen_program_is_understood():
    modes = after(TUI)
    assert modes.title == "a title"
    assert modes.alternate == 1049
    assert [modes.is_on(number) for number in (1, 25, 1002, 1003, 1004, 1006, 2004, 7)] == [
        True, False, True, False, True, True, True, True,
    ]  # fmt: skip
    restored = modes.restore()
    for part in ("\x1b=", "\x1b[?25l", "\x1b[4 q", "\x1b[>4;2m", "a title"):
        assert part in restored
    assert modes.keyboard(alternate=True) == "\x1b[<99u\x1b[>1u"


@pytest.mark.parametrize("cut", range(1, len(TUI)))
def test_a_sequence_cut_anywhere_is_the_same_sequence(cut):
    assert after(TUI[:cut], TUI[cut:]).restore() == after(TUI).restore()


def test_one_byte_at_a_time_is_the_same():
    assert after(*(TUI[at : at + 1] for at in range(len(TUI)))).restore() == after(TUI).restore()


@given(st.lists(st.sampled_from([TUI[:30], TUI[30:], b"\x1b[?1049l", b"\x1bc", b"\x1b[!p", b"\x1b]2;x\x07", b"\x1b"])))
def test_what_restores_leads_to_itself(parts):
    reader = read(*parts)
    if reader.incomplete_bytes == 0:
        again = after(reader.modes.restore().encode())
        assert again.restore() == reader.modes.restore()


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_any_bytes_are_taken(parts):
    reader = read(*parts)
    reader.modes.restore()
    assert reader.incomplete_bytes <= 4097


def test_leaving_puts_everything_back():
    left = b"\x1b[<u\x1b[?1049l\x1b[?1l\x1b>\x1b[?2004l\x1b[?1002;1006l\x1b[?1004l\x1b[?25h"
    modes = after(TUI, left)
    assert modes.alternate == 0
    screen = pyte.Screen(80, 24)
    pyte.ByteStream(screen).feed(b"$ \x1b[?25l" + b"".join(_readable(modes.restore().encode())))
    assert not screen.cursor.hidden
    assert (screen.cursor.x, screen.cursor.y) == (2, 0)


def _readable(restored: bytes):
    # pyte 0.8.2 misreads sequences with a prefix other than "?".
    return (b"\x1b" + piece for piece in restored.split(b"\x1b")[1:] if piece[:2] not in (b"[>", b"[<", b"[="))


def test_each_screen_has_its_own_keyboard():
    modes = after(b"\x1b[>1u\x1b[?1049h\x1b[>5u")
    assert modes.keyboard(alternate=False) == "\x1b[<99u\x1b[>1u"
    assert modes.keyboard(alternate=True) == "\x1b[<99u\x1b[>5u"
    assert after(TUI[:10]).keyboard(alternate=False) == ""


def test_a_reset_forgets_all_but_the_title():
    modes = after(TUI, b"\x1bc")
    assert (modes.title, modes.alternate, modes.is_on(25), modes.is_on(2004)) == ("a title", 0, True, False)


def test_of_modes_that_undo_each_other_the_last_change_is_said_last():
    assert after(b"\x1b[?1002h\x1b[?1000h\x1b[?1002l").restore() == "\x1b[?1000h\x1b[?1002l"


def test_colours_that_a_program_set_come_back_and_go_with_it():
    modes = after(b"\x1b]4;3;#102030;9;?\x07\x1b]11;#222222\x1b\\\x1b]10;#111111\x07\x1b]110\x07")
    assert modes.restore() == "\x1b]4;3;#102030\x1b\\\x1b]11;#222222\x1b\\"
    assert modes.undo() == "\x1b[0m\x1b]104;3\x1b\\\x1b]111\x1b\\"
    assert after(modes.restore().encode(), modes.undo().encode()).restore() == ""


def test_what_is_shown_at_once_only_when_it_is_whole_is_said_after_all_else():
    modes = after(b"\x1b[?2026h\x1b[?25l")
    assert (modes.restore(), modes.finish()) == ("\x1b[?25l", "\x1b[?2026h")


def test_a_title_without_end_costs_no_memory_and_what_follows_is_read():
    reader = read(b"\x1b]0;", *([b"x" * 10_000] * 50))
    assert reader.incomplete_bytes <= 4097
    reader.feed(b"\x07\x1b[?2004h")
    assert reader.modes.is_on(2004)


def test_a_title_is_one_printable_line():
    assert after(b"\x1b]0;a\nb\xe2\x80\xaec\x07").title == "abc"
