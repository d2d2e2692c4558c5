"""Whoever comes late sees what one sees who never left: generated output, sizes and viewers, judged by xterm.js.

CORRAL_SCREENS=5000 tries so many sessions; CORRAL_SCREENS_FROM sets the first seed.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from corral.terminals.screen import Screen
from corral.terminals.stream import Stream
from tests.integration.screens.generated import choose_size, generate
from tests.integration.screens.viewers import Direct
from tests.integration.screens.xterm import EVERYTHING, SEEN, tell_difference, text_of
from tests.long_run import SCREENS

SESSIONS = SCREENS
FIRST = int(os.environ.get("CORRAL_SCREENS_FROM", "0"))
LARGE, SMALL = 1 << 20, 1 << 12
COLUMNS, ROWS = (12, 100), (4, 30)


def random_size(random: Random) -> tuple[int, int]:
    return random.randint(*COLUMNS), random.randint(*ROWS)


def check(stayed: Direct, came: Direct, said: str) -> None:
    for one in (stayed, came):
        one.catch_up()
    ours, theirs = stayed.terminal.dump(), came.terminal.dump()
    # A window of one's own has its own lines above, and is shown what is under a program's screen when that ends.
    found = tell_difference(ours, theirs, SEEN if stayed.watcher.paints else EVERYTHING)
    assert not found, f"{said}: {found[:5]}\n{text_of(ours)}\n--- came:\n{text_of(theirs)}"


@pytest.mark.parametrize("paints", [False, True], ids=["page", "attach"])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SESSIONS))
def test_a_viewer_that_comes_late_sees_what_one_sees_that_stayed(xterms, seed, paints):
    random = Random(seed)
    size = random_size(random)
    stream = Stream(LARGE, size)
    stayed = Direct(xterms, stream, size, paints=paints)
    others: list[Direct] = []
    for step in range(random.randint(3, 9)):
        match random.choice(["output", "output", "output", "resize", "come", "leave"]):
            case "output":
                data = generate(random, *size, random.randint(1, 60))
                cut = random.randint(0, len(data))
                for part in (data[:cut], data[cut:]):
                    stream.feed(part)
                    for one in [stayed, *others]:
                        if random.random() < 0.7:
                            one.catch_up()
            case "resize":
                size = random_size(random)
                for one in [stayed, *others]:
                    one.catch_up()
                stream.resize(*size)
                for one in [stayed, *others]:
                    one.resized(size)
            case "come":
                others.append(Direct(xterms, stream, size, paints=paints))
            case _ if others:
                others.pop().close()
            case _:
                pass
        for one in others:
            check(stayed, one, f"seed {seed}, step {step}")
    for one in [stayed, *others]:
        one.close()


@pytest.mark.parametrize("resizes", [False, True], ids=["one size", "sizes"])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SESSIONS // 2))
def test_so_does_one_that_comes_when_the_beginning_has_left_the_ring(xterms, seed, resizes):
    random = Random(f"ring {seed} {resizes}")
    size = random_size(random)
    screen = Screen(*size)
    stream = Stream(SMALL, size)
    stayed = Direct(xterms, stream, size, paints=False)
    while stream.ring.head < 3 * SMALL:
        if resizes and random.random() < 0.2:
            size = choose_size(random, screen, COLUMNS, ROWS)
            stream.resize(*size)
            screen.resize(*size)
        data = generate(random, *size, 20, joins=not resizes)
        stream.feed(data)
        screen.feed(data)
        stayed.catch_up()
    for _ in range(3):
        came = Direct(xterms, stream, size, paints=False)
        check(stayed, came, f"seed {seed}")
        stream.feed(generate(random, *size, 30, joins=not resizes))
        check(stayed, came, f"seed {seed}, after more")
        came.close()
    stayed.close()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SESSIONS // 6))
def test_so_does_one_that_read_too_slowly(xterms, seed):
    random = Random(f"slow {seed}")
    size = random_size(random)
    stream = Stream(SMALL, size)
    stayed, slow = (Direct(xterms, stream, size, paints=False) for _ in range(2))
    for _ in range(3):
        for _ in range(random.randint(1, 30)):
            stream.feed(generate(random, *size, 20))
            stayed.catch_up()
        check(stayed, slow, f"seed {seed}")
    stayed.close()
    slow.close()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SESSIONS // 20))
def test_so_does_one_that_comes_after_a_flood_of_lines(xterms, seed):
    random = Random(f"flood {seed}")
    size = random_size(random)
    stream = Stream(LARGE, size)
    stayed = Direct(xterms, stream, size, paints=False)
    stream.feed(generate(random, *size, 200) + b"\x1b[?1049l\x1b[r\x1b[?6l\x1b[4l\x1b(B\x0f\x1b[?7h")
    words = ["\x1b[32mgreen\x1b[0m", "plain", "\x1b[1;44m", "\x1b[m", "日本語", "\t", "x" * 70, "\x1b[K", "é", "\u0085"]
    while stream.ring.head < 2 * LARGE:
        lines = (" ".join(random.choices(words[:-1], k=random.randint(0, 9))) for _ in range(200))
        stream.feed("\r\n".join([*lines, words[-1] if random.random() < 0.01 else "", ""]).encode())
        stayed.catch_up()
    came = Direct(xterms, stream, size, paints=False)
    check(stayed, came, f"seed {seed}")
    came.close()
    stayed.close()
