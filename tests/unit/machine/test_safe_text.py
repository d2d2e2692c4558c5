"""What may reach a terminal: controls of our own, and nothing of anybody else's."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.machine import text
from corral.machine.json_text import encode_json
from corral.machine.text import control, safe

UNSAFE = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029\u2066\u2069\ud800\udcff",
]
UNSAFE += map(chr, range(0x202A, 0x202F))


@pytest.mark.parametrize("sign", UNSAFE, ids=ascii)
def test_what_could_steer_a_terminal_is_shown_as_its_escape(sign: str):
    assert safe(f"a{sign}b") == f"a\\u{ord(sign):04x}b"


@pytest.mark.parametrize("plain", ["", "Größe 日本語", "👩\u200d💻", "a b", "e\u0301", "\xa0"])
def test_all_other_text_stays(plain: str):
    assert safe(plain) == plain


def test_newlines_are_kept_only_where_they_are_ours():
    assert safe("a\nb") == "a\\u000ab"
    assert safe("a\nb\r", lines=True) == "a\nb\\u000d"


def test_our_controls_are_carried_out_and_foreign_ones_are_not():
    assert safe(control("\x1b[31m") + "\x1b[32mred\ufdd1" + control("\r\n")) == "\x1b[31m\\u001b[32mred\ufdd1\r\n"


def test_nobody_else_can_make_one(monkeypatch: pytest.MonkeyPatch):
    """Not even with the text of another run of corral."""
    foreign = control("\x1b[2J")
    monkeypatch.setattr(text, "_MARK", "\ufdd000000000")
    assert safe(foreign) == foreign and "\x1b" not in safe(foreign)


@given(st.text(st.characters(codec=None), max_size=30))
def test_json_keeps_every_value_and_prints_none_of_it_raw(value: str):
    for indent in (None, 2):
        told = encode_json({"a": [value]}, indent=indent).decode()
        assert json.loads(told) == {"a": [value]}
        assert safe(told, lines=True) == told
