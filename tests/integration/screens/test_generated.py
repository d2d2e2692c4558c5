"""Whoever comes late sees what one sees who never left: generated output, sizes and viewers, judged by xterm.js.

CORRAL_SCREENS=5000 tries so many sessions; CORRAL_SCREENS_FROM sets the first seed.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from corral.terminals.stream import Stream
from tests.integration.screens.generated import generate
from tests.integration.screens.viewers import Direct
from tests.integration.screens.xterm import tell_difference, text_of

SESSIONS = int(os.environ.get("CORRAL_SCREENS", "60"))
FIRST = int(os.environ.get("CORRAL_SCREENS_FROM", "0"))
LARGE, SMALL = 1 << 20, 1 << 12


def random_size(random: Random) -> tuple[int, int]:
    return random.randint(12, 100), random.randint(4, 30)


def check(stayed: Direct, came: Direct, said: str) -> None:
    for one in (stayed, came):
        one.catch_up()
    ours, theirs = stayed.terminal.dump(), came.terminal.dump()
    found = tell_difference(ours, theirs)
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


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SESSIONS // 3))
def test_so_does_one_that_comes_when_the_beginning_has_left_the_ring(xterms, seed):
    random = Random(seed)
    size = random_size(random)
    stream = Stream(SMALL, size)
    stayed = Direct(xterms, stream, size, paints=False)
    while stream.ring.head < 3 * SMALL:
        data = generate(random, *size, 20)
        stream.feed(data)
        stayed.catch_up()
    for _ in range(3):
        came = Direct(xterms, stream, size, paints=False)
        check(stayed, came, f"seed {seed}")
        data = generate(random, *size, 30)
        stream.feed(data)
        check(stayed, came, f"seed {seed}, after more")
        came.close()
    stayed.close()
