"""Qwen's forks of forks: a copy names the session that it was copied from, and no earlier one.

So two logs name different owners of one request. Whose it is must not depend on which of them is read first, on what is
there when it is read, nor on what is deleted later.
"""

from __future__ import annotations

import os
from itertools import combinations, permutations

import pytest

from corral.usage.answers import ask_ledger
from corral.usage.changes import update_ledger
from corral.usage.check import check_usage
from tests.usage_truth.forks import CHATS, Files, forks_home, line, qwen_month, qwen_record

A, B, C, D = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "dcba")
"""Each was forked from the one before. Of equal ranks the least id decides: it would be wrong each time."""
_OWNERS = {1: A, 10: B, 100: C, 1000: D}
"""By the tokens of the request that each made before it was forked."""


def _write_chain() -> dict[str, Files]:
    logs: dict[str, Files] = {}
    before: list[str] = []
    for name in _OWNERS.values():
        copies = [qwen_record(name, one, 10**one, before[-1]) for one in range(len(before))]
        logs[name] = {f"{CHATS}/{name}.jsonl": b"".join([*copies, qwen_record(name, len(before), 10 ** len(before))])}
        before.append(name)
    return logs


CHAIN = _write_chain()
MONTH = {
    ".qwen/usage/token-usage-2026-10.jsonl": b"".join(
        qwen_month(name, number, 10**number) for number, name in enumerate(CHAIN)
    )
}


@pytest.mark.parametrize("there", [(A, B, C, D), (B, C, D)], ids=["all", "the first is gone"])
def test_each_request_belongs_to_who_made_it_in_any_order(there: tuple[str, ...]) -> None:
    for number, order in enumerate(permutations(there)):
        with forks_home() as home:
            home.write(MONTH if number % 2 else {})
            for name in order:
                home.write(CHAIN[name])
                home.scan()
            assert home.owners() == _OWNERS, order
            assert not [row for row in home.result() if row[0] == "events" and row[-1]], "nothing is ambiguous"
            if number % 5 == 0:
                assert home.result() == home.cold(), order


@pytest.mark.parametrize("there", [(A, C, D), (A, D), (B, D), (A, B, D)], ids=str)
def test_where_logs_between_are_gone_any_order_gives_one_answer(there: tuple[str, ...]) -> None:
    for order in permutations(there):
        with forks_home() as home:
            for name in order:
                home.write(CHAIN[name])
                home.scan()
            stepwise = home.result()
            assert home.total() == 1111
            assert stepwise == home.cold(), order


@pytest.mark.parametrize("month", [{}, MONTH], ids=["no month", "month"])
def test_what_was_known_is_not_forgotten_with_the_logs(month: Files) -> None:
    """The first log was never seen. Then others are deleted, and the ledger is damaged."""
    for gone in permutations((B, C, D), 2):
        with forks_home() as home:
            home.write(CHAIN[B] | CHAIN[C] | CHAIN[D] | month)
            home.scan()
            before = home.result()
            for name in gone:
                home.remove(CHAIN[name])
                home.scan()
                assert home.result() == before, gone
            assert check_usage(None).is_right
            home.damage("DELETE FROM seals WHERE name = 'labels'")
            ask_ledger(update_ledger)
            assert home.result() == before, gone


@pytest.mark.parametrize("first", [some for size in (1, 2) for some in combinations((B, C, D), size)], ids=len)
def test_a_damaged_ledger_that_knew_less_is_made_again_as_a_first_reading(first: tuple[str, ...]) -> None:
    with forks_home() as home:
        for name in first:
            home.write(CHAIN[name])
        home.scan()
        home.write(CHAIN[B] | CHAIN[C] | CHAIN[D])
        home.forget_copies()
        home.damage("DELETE FROM seals WHERE name = 'labels'")
        ask_ledger(update_ledger)
        assert home.owners() == _OWNERS
        assert home.result() == home.cold()


def test_a_log_that_can_not_be_read_for_a_while_keeps_its_place() -> None:
    """Also one that is to be read again meanwhile."""
    with forks_home() as home:
        home.write(CHAIN[D])
        home.scan()
        (path,) = CHAIN[D]
        place, aside = home.root / path, home.root / "aside"
        os.rename(place, aside)
        place.mkdir()
        home.write(CHAIN[B] | CHAIN[C])
        home.scan()
        place.rmdir()
        os.rename(aside, place)
        home.scan()
        assert home.owners() == _OWNERS
        assert home.result() == home.cold()


def test_a_log_of_which_only_the_first_line_was_there_is_known_for_a_fork() -> None:
    """Qwen writes a line of its own before the copies, if a client asked for the fork."""
    own = line({"uuid": "s", "sessionId": D, "type": "system", "subtype": "session_source", "cwd": "/src/app"})
    (path,), (data,) = CHAIN[D], CHAIN[D].values()
    with forks_home() as home:
        home.write(CHAIN[C] | {path: own})
        home.scan()
        home.append(path, data)
        home.scan()
        home.append(path, qwen_record(D, 7, 5))
        home.scan()
        assert home.result() == home.cold()


def test_what_was_stored_by_an_older_look_is_looked_at_again() -> None:
    """A fork and the month were read when a log between was not there, and stored when others had read that."""
    with forks_home() as home:

        def others() -> None:
            home.write(CHAIN[C])
            home.scan()

        home.write(CHAIN[B] | MONTH)
        home.scan()
        home.write(CHAIN[D])
        home.scan(others)
        home.scan()
        assert home.owners() == _OWNERS
        assert home.result() == home.cold()
