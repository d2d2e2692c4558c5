"""The holder's screen is that of the page's engine after the same output and sizes: its picture, whenever it is painted,
leads another terminal to the same cells, cursor, modes and all that decides what comes next.

CORRAL_SCREENS=5000 tries so many sessions; CORRAL_SCREENS_FROM sets the first seed.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from corral.terminals.attributes import PLAIN, Styles, find_styles
from corral.terminals.picture import paint
from corral.terminals.screen import Screen
from corral.terminals.stream import Stream
from tests.integration.screens.generated import choose_size, generate
from tests.integration.screens.xterm import EVERYTHING, Xterm, Xterms, tell_difference, text_of
from tests.long_run import SCREENS

SESSIONS = SCREENS * 2
FIRST = int(os.environ.get("CORRAL_SCREENS_FROM", "0"))


class Both:
    """A screen of the holder and a terminal of the page's engine, with others that came later."""

    def __init__(self, xterms: Xterms, size: tuple[int, int]) -> None:
        self._xterms = xterms
        self.size = size
        self.screen = Screen(*size)
        self.stayed = xterms.make(*size)
        self.came: list[Xterm] = []

    def feed(self, data: bytes) -> None:
        self.screen.feed(data)
        for one in (self.stayed, *self.came):
            one.write(data)

    def resize(self, size: tuple[int, int]) -> None:
        self.size = size
        self.screen.resize(*size)
        for one in (self.stayed, *self.came):
            one.resize(*size)

    def let_come(self, rest: bytes) -> None:
        """`rest`: what was fed last, of which a sequence may be incomplete."""
        came = self._xterms.make(*self.size)
        incomplete = self.screen.parser.incomplete_bytes
        came.write(paint(self.screen, whole=True, history=True) + rest[len(rest) - incomplete :])
        self.came.append(came)

    def find_difference(self) -> str:
        stayed = self.stayed.dump()
        for came in (one.dump() for one in self.came):
            if found := tell_difference(stayed, came, EVERYTHING):
                return f"{found[:5]}\n{text_of(stayed)}\n--- came:\n{text_of(came)}"
        return ""

    def close(self) -> None:
        for one in (self.stayed, *self.came):
            one.close()


@pytest.mark.parametrize("resizes", [False, True], ids=["one size", "sizes"])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SESSIONS))
def test_a_picture_leads_to_what_the_pages_engine_shows(xterms, seed, resizes):
    random = Random(seed)
    both = Both(xterms, (random.randint(12, 60), random.randint(3, 16)))
    for step in range(random.randint(2, 8)):
        data = generate(random, *both.size, random.randint(1, 25), joins=not resizes)
        cut = random.randint(0, len(data))
        both.feed(data[:cut])
        both.let_come(data[:cut])
        both.feed(data[cut:])
        found = both.find_difference()
        assert not found, f"seed {seed}, step {step}: {found}"
        if resizes:
            # What is beyond the last column of a terminal that was wider, nobody can be told who comes later.
            for one in both.came:
                one.close()
            both.came.clear()
            both.resize(choose_size(random, both.screen, (12, 60), (3, 16)))
    both.close()


def count_styles() -> int:
    """How many sequences are noted that lead somewhere from plain text."""
    known: dict[int, Styles] = {}
    waiting = [find_styles(PLAIN)]
    while waiting:
        styles = waiting.pop()
        if id(styles) not in known:
            known[id(styles)] = styles
            waiting += [following for _, following in styles.values()]
    return sum(map(len, known.values()))


SIGNS = b"\x1b\x1b\x1b[[]0123456789;:?<=>!'\" $()#HJKLMSTZmrhlABCDPX^_\\\x07\x18\r\n\t\b\x9b\xc2\xe2\x80\xf0\x9fab\xcc\x81\xe6\x97\xa5"

CASES = {
    "a sequence that another cuts off": b"\x1b[1;2\x1b[3;3Hhere",
    "a title that is cut off": b"\x1b]2;one\x07\x1b]2;two\x18three",
    "a control within a sequence": b"text\x1b[2\bCmore",
    "a sequence in a string that ends it": b"\x1b]2;title\x1b[31mred",
    "an introducer of one character": "\u009b31mred\u0085next\u0084below".encode(),
    "bytes that are no text": b"a\xffb\xc3(c\xe2\x80(d\xed\xa0\x80e\x9b31mf",
    "a colour space that is left out": b"\x1b[38:2:10:20:30mcolour",
    "a link": b"\x1b]8;id=q;http://a.example/x;y\x07in\x1b]8;;\x07 out \x1b]8;;http://b.example/\x1b\\more",
    "half a colour": b"\x1b[38;5m\x1b[48;2;9mcolour",
    "joined to what came before the picture": b"wait\xe2\x9d\xa4",
    "a mouse mode that undoes another": b"\x1b[?1002h\x1b[?1000h\x1b[?1002l",
    "an update that is not whole yet": b"\x1b[?2026hhalf",
    "erased in the colour of the pen": b"\x1b[44m\x1b[2J\x1b[Htext",
    "a wide character that did not fit": b"x" * 19 + "日本".encode(),
    "repeated more often than the screen is large": b"z\x1b[70000b",
    "marks without end": b"a" + "\u0301".encode() * 300_000,
    "colours without end": b"".join(
        b"\x1b[38;2;%d;%d;%dmx\x1b[48;2;%d;0;0m" % (n % 256, n // 256, 7, n % 256) for n in range(20_000)
    ),
}


@pytest.mark.parametrize("output", CASES.values(), ids=CASES)
def test_so_it_does_for_what_programs_should_not_write(xterms, output):
    both = Both(xterms, (20, 6))
    both.feed(output)
    both.let_come(output)
    both.feed("\ufe0f then\x1b[3b".encode())
    stayed, came = both.stayed.dump(), both.came[0].dump()
    for dump in (stayed, came):
        dump["history"] = []  # it is shorter where one character was repeated for long
        dump["rows"] = [
            [cell[:64] for cell in row] for row in dump["rows"]
        ]  # and so is a cell of which nobody sees all
    assert tell_difference(stayed, came, (*EVERYTHING, "links")) == []
    both.close()


def test_so_it_does_for_a_first_row_that_goes_on_with_one_that_is_gone(xterms):
    both = Both(xterms, (20, 6))
    both.feed(b"\x1b[?1049h\x1b[5;1H" + b"x" * 130)
    both.let_come(b"")
    both.feed(b"\x1b[H\x1bM\x1b[?45h\x1b[2;1H\bhere")
    assert not both.find_difference()
    both.close()


_CUT = "\x1b[4;53m日\x1b[{}Gx\x1b[0m"
"""A wide character whose right half is written over in that column: what is left is blank, and has a line."""
_TWO = "\x1b[4m日日\x1b[2Gx\x1b[4Gx\x1b[2G\x1b[P\x1b[0m\x1b[3G\x1b[X"
BLANKS = {
    "in between": "ab" + _CUT.format(4) + "cd",
    "at the end of the text": "ab" + _CUT.format(4) + "\x1b[4G\x1b[K",
    "in the first column": _CUT.format(2) + "日本",
    "in the last column": "\x1b[18Gx\x1b[4m日\x1b[19Gx",
    "in the last column after a wide one": "\x1b[17G日\x1b[4m日\x1b[19Gx\x1b[17G本",
    "two in the last columns": _TWO + "\x1b[1G\x1b[18@ab",
    "two in the last columns after others": _TWO + "\x1b[1G\x1b[18@\x1b[17G日",
    "before a row that goes on": "x" * 19 + "\x1b[4;9m日本" + "\x1b[0mabc",
    "before a row that goes on with a narrow one": "x" * 19 + "\x1b[4;9m日本" + "\x1b[0m\x1b[1Gabc",
    "two in a row": _TWO,
}


@pytest.mark.parametrize("output", BLANKS.values(), ids=BLANKS)
@pytest.mark.parametrize("columns", [12, 17, 19, 23, 40])
def test_so_it_does_for_blanks_that_wide_characters_left(xterms, output, columns):
    both = Both(xterms, (20, 6))
    both.feed(output.encode() + b"\r\n\n")
    both.let_come(b"")
    for size in ((columns, 6), (15, 6), (30, 6)):
        both.resize(size)
        assert not both.find_difference()
    both.close()


def test_a_window_of_one_column_or_none_holds_nobody_up():
    screen = Screen(12, 4)
    screen.feed("日本語日本語日本語 and more\r\n".encode() * 9)
    for size in ((1, 1), (0, 0), (40, 10), (1, 3)):
        screen.resize(*size)
        screen.feed("日本語\r\n".encode())
        assert paint(screen, whole=True, history=True)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SESSIONS // 4))
def test_any_bytes_are_taken_in_any_size(seed):
    """A holder that fails here takes its program with it."""
    random = Random(f"bytes {seed}")
    stream = Stream(1 << 12, (80, 24))
    for _ in range(random.randint(5, 30)):
        size = random.choice([1, 2, 5, 12, 80, 300]), random.choice([1, 2, 3, 24, 100])
        match random.randrange(6):
            case 0:
                stream.feed(random.randbytes(random.randint(1, 3000)))
            case 1:
                stream.feed(bytes(random.choices(SIGNS, k=random.randint(1, 400))))
            case 2 | 3:
                stream.feed(generate(random, 80, 24, random.randint(1, 40)))
            case 4:
                stream.resize(*size)
            case _:
                assert stream.begin_now(whole=random.random() < 0.5, history=random.random() < 0.5)


def test_marks_without_end_cost_no_memory():
    screen = Screen(80, 24)
    screen.feed(b"a" + "\u0301".encode() * 100_000)
    assert len(screen.normal.line(0).cells[0]) <= 256


def test_colours_without_end_cost_no_memory():
    screen = Screen(80, 24)
    for n in range(30_000):
        screen.feed(b"\x1b[38;2;%d;%d;1m\x1b[48;2;%d;%d;1mx\x1b[0m" % (n % 256, n // 256, n % 251, n // 251))
    assert count_styles() <= 5000
