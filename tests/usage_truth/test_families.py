"""Copies are merged within a family of forks, and only there; in whatever order its files are seen."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from corral.usage.answers import ask_ledger
from corral.usage.changes import update_ledger
from tests.usage_truth.forks import (
    BUCKET,
    CHAIN,
    CHATS,
    FORKED,
    HEAD,
    TWIN,
    C,
    D,
    Files,
    G,
    P,
    forks_home,
    line,
    qwen_month,
    qwen_record,
    state,
    turn,
    wire,
)

_ORDERS = 8
"""How many orders of arrival are tried, of all that there are."""

_G = HEAD + turn(100, 1)
_P = _G + FORKED + turn(200, 10)
_C = _P + FORKED + turn(300, 100)
_D = _G + FORKED + turn(400, 1000)
_AGENT = HEAD + turn(150, 5000, "agent-0")

SCENES: dict[str, tuple[Files, int]] = {
    "unrelated": (state(G) | wire(G, _G) | state(TWIN) | wire(TWIN, HEAD, turn(100, 1, prompt="other")), 2),
    "unrelated, byte by byte": (state(G) | wire(G, _G) | state(TWIN) | wire(TWIN, _G), 2),
    "a fork": (state(G) | wire(G, _G) | state(D, G) | wire(D, _D), 1001),
    "a chain": (state(G) | wire(G, _G) | state(P, G) | wire(P, _P) | state(C, P) | wire(C, _C), 111),
    "a chain and a stranger": (
        state(G) | wire(G, _G) | state(C, G) | wire(C, _P) | state(TWIN) | wire(TWIN, _P),
        22,
    ),
    "two forks of one that is gone": (state(P, G) | wire(P, _P) | state(D, G) | wire(D, _D), 1011),
    "a chain whose middle is gone": (state(G) | wire(G, _G) | state(C, P) | wire(C, _C), 111),
    "a chain whose beginning is gone": (state(P, G) | wire(P, _P) | state(C, P) | wire(C, _C), 111),
    "a chain whose middle says nothing": (
        state(G) | wire(G, _G) | wire(P, _P) | state(C, P) | wire(C, _C),
        111,
    ),
    "a fork that says nothing": (state(G) | wire(G, _G) | wire(D, _D), 1001),
    "two that say nothing": (state(G) | wire(G, _G) | wire(C, _C) | wire(D, _D), 1111),
    "a first one that says nothing": (wire(G, _G) | state(D, G) | wire(D, _D), 1001),
    "a fork with a sub-agent": (
        state(G)
        | wire(G, _G)
        | wire(G, _AGENT, agent="agent-0")
        | state(D, G)
        | wire(D, _D)
        | wire(D, _AGENT, FORKED, agent="agent-0"),
        6001,
    ),
    "cut": (state(G) | wire(G, HEAD, turn(100, 1), turn(300, 100)) | wire(G, _P, kept=True), 111),
    "cut within a turn": (
        state(G)
        | wire(G, b"".join(_G.splitlines(keepends=True)[:3]), turn(300, 100))
        | wire(G, _G, turn(200, 10), kept=True),
        111,
    ),
    "a sub-agent's log cut": (
        state(G) | wire(G, _G) | wire(G, HEAD, agent="agent-0") | wire(G, _AGENT, agent="agent-0", kept=True),
        5001,
    ),
    "a fork of one that was cut": (
        state(G)
        | wire(G, HEAD, turn(100, 1))
        | wire(G, _G, turn(200, 10), kept=True)
        | state(D, G)
        | wire(D, _D)
        | wire(D, _G, turn(200, 10), kept=True),
        1011,
    ),
    "copied by hand": (
        state(G) | wire(G, _G) | {f"{BUCKET}/{D}/state.json": line({"id": G, "cwd": "/x"})} | wire(D, _G),
        1,
    ),
}


QP, QF, QX = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "123")
_MONTH = {
    ".qwen/usage/token-usage-2026-10.jsonl": qwen_month(QP, 1, 1)
    + qwen_month(QP, 2, 10)
    + qwen_month(QF, 3, 100)
    + qwen_month(QX, 4, 7)
}
_PARENT = {f"{CHATS}/{QP}.jsonl": qwen_record(QP, 1, 1) + qwen_record(QP, 2, 10)}
_FORK = {f"{CHATS}/{QF}.jsonl": qwen_record(QF, 1, 1, QP) + qwen_record(QF, 3, 100)}
SCENES |= {
    "Qwen: a fork, its parent, the month": (_PARENT | _FORK | _MONTH, 118),
    "Qwen: a fork whose parent is gone, the month": (_FORK | _MONTH, 108),
    "Qwen: a parent without a fork, the month": (_PARENT | _MONTH, 118),
}


def _orders(files: Files) -> list[list[str]]:
    """Some orders in which files can arrive. kimi-code keeps a log before it cuts it, never after."""
    chance = random.Random(7)
    some = [chance.sample(sorted(files), len(files)) for _ in range(_ORDERS)]
    orders = [list(order) for order in permutations(files)] if len(files) < 4 else some
    for order in orders:
        for path in [path for path in order if path.endswith(".bak")]:
            order.remove(path)
            order.insert(order.index(path.removesuffix(".bak")), path)
    return orders


@pytest.mark.parametrize("scene", SCENES)
def test_all_at_once_counts_each_request_once(scene: str) -> None:
    files, total = SCENES[scene]
    with forks_home() as world:
        world.write(files)
        world.scan()
        assert world.total() == total
        assert not [row for row in world.result() if row[0] == "unrecorded"]


@pytest.mark.parametrize("scene", SCENES)
def test_any_order_of_arrival_gives_the_same_ledger(scene: str) -> None:
    files, total = SCENES[scene]
    for order in _orders(files):
        with forks_home() as world:
            for path in order:
                world.write({path: files[path]})
                world.scan()
            stepwise = world.result()
            assert world.total() == total, order
            assert stepwise == world.cold(), order


def test_a_reading_that_others_outran_is_not_stored() -> None:
    """What they found of the family was another one than before and after: under its name all would count again."""
    with forks_home() as world:

        def others() -> None:
            world.write(wire(C, _P))
            world.scan()

        world.write(wire(P, _G))
        world.scan()
        world.write(state(D, P) | wire(D, _D))
        world.scan(others)
        world.write(state(P) | state(C, P))
        world.scan()
        assert world.total() == 1011
        assert world.result() == world.cold()


@pytest.mark.parametrize("gone", [(P,), (G, P), (P, G, C)])
def test_what_was_known_of_a_family_is_not_forgotten_with_its_files(gone: tuple[str, ...]) -> None:
    """The chain was read; then sessions of it are deleted, and the last one is forked again."""
    chain = {G: state(G) | wire(G, _G), P: state(P, G) | wire(P, _P), C: state(C, P) | wire(C, _C)}
    with forks_home() as world:
        for files in chain.values():
            world.write(files)
        world.scan()
        for name in gone:
            world.remove(chain[name])
            world.scan()
            assert world.total() == 111
        world.write(state(D, C) | wire(D, _C, FORKED, turn(500, 1000)))
        world.scan()
        assert world.total() == 1111


def test_a_month_is_not_said_to_miss_what_was_read_before_it_was_deleted() -> None:
    with forks_home() as world:
        world.write(_PARENT | _FORK | _MONTH)
        world.scan()
        world.remove(_PARENT)
        world.scan()
        assert world.total() == 118
        assert not [row for row in world.result() if row[0] == "skips"]
        world.damage("DELETE FROM seals WHERE name = 'labels'")
        ask_ledger(update_ledger)
        assert world.total() == 118
        assert not [row for row in world.result() if row[0] == "skips"]


def test_a_cut_that_corral_did_not_see_loses_nothing() -> None:
    """The log was read, grew, and was cut before the next look: what came between is only in the copy."""
    with forks_home() as world:
        world.write(state(G) | wire(G, _G))
        world.scan()
        world.write(wire(G, _G, turn(200, 10), b"torn{", kept=True) | wire(G, HEAD, turn(300, 100)))
        world.scan()
        assert world.total() == 111


@pytest.mark.parametrize("gone", [(P,), (G, P), (G,), (P, G, C)])
def test_a_stranger_that_begins_alike_takes_no_fork_whose_family_was_known(gone: tuple[str, ...]) -> None:
    with forks_home() as home:
        for files in CHAIN.values():
            home.write(files)
        home.scan()
        before = home.result()
        for name in gone:
            home.remove(CHAIN[name])
            home.scan()
            assert home.result() == before
