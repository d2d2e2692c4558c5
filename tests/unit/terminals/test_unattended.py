"""Which questions of a program are answered while nobody looks, however its output is cut."""

from __future__ import annotations

import pytest

from corral.terminals.queries import Unattended


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (b"\x1b[6n", b"\x1b[24;1R"),
        (b"\x1b[c", b"\x1b[?1;2c"),
        (b"\x1b[0c", b"\x1b[?1;2c"),
        (b"\x1b[5n", b"\x1b[0n"),
        (b"a\x1b[?u\x1b[cb\x1b[6n", b"\x1b[?1;2c\x1b[24;1R"),
        (b"\x1b[?u", b""),
        (b"\x1b[>c", b""),
        (b"\x1b]11;?\x07", b""),
        (b"\x1b[16n", b""),
        (b"[6n", b""),
    ],
)
def test_only_what_every_terminal_says_is_said_and_once(asked: bytes, answered: bytes) -> None:
    assert Unattended().answer(asked, 24) == answered
    cut = Unattended()
    assert b"".join(cut.answer(bytes([byte]), 24) for byte in asked) == answered


def test_an_answer_that_is_echoed_asks_nothing() -> None:
    said = Unattended().answer(b"\x1b[c\x1b[5n\x1b[6n", 6)
    assert Unattended().answer(said, 6) == b""


def test_half_a_question_is_left_to_who_came_meanwhile() -> None:
    alone = Unattended()
    assert alone.answer(b"\x1b[6", 24) == b""
    alone.forget()
    assert alone.answer(b"n", 24) == b""
