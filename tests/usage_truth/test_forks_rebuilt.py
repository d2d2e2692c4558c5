"""A ledger that is made again counts families of forks as before: nothing twice, and nothing lost.

Which logs are left when that happens must not matter.
"""

from __future__ import annotations

import shutil
import sqlite3
from itertools import combinations

import pytest

from corral.usage.answers import ask_ledger
from corral.usage.changes import update_ledger
from corral.usage.check import check_usage
from corral.usage.ledger import Ledger
from corral.usage.report import list_losses
from tests.unit.usage.readings import check_all
from tests.usage_truth.forks import CHAIN, FORKED, TWIN, C, D, ForksHome, G, P, forks_home, state, turn, wire

_SUBSETS = [some for size in range(5) for some in combinations((G, P, C, TWIN), size)]
_WHOLE = {"events": [1, 1, 10, 100, 1000], "actions": [50, 50, 100, 100, 200, 300, 400], "unrecorded": [51, 51]}
"""Tokens of each request; milliseconds of each turn and of each request without tokens."""
_SAYS = {"events": "input", "actions": "at", "unrecorded": "at"}


def _count(home: ForksHome) -> dict[str, list[int]]:
    with sqlite3.connect(home.path) as db:
        found = {table: [row[0] for row in db.execute(f"SELECT {what} FROM {table}")] for table, what in _SAYS.items()}
    db.close()
    return {
        table: sorted(round((one - 1_791_000_000) * 1000) if table != "events" else one for one in some)
        for table, some in found.items()
    }


def _owners(home: ForksHome) -> dict[int, str]:
    query = "SELECT input, session_id FROM events JOIN sessions ON sessions.id = session WHERE input > 1"
    with sqlite3.connect(home.path) as db:
        return dict(db.execute(query))


def _use(home: ForksHome) -> None:
    """Twice: what is made again must stay as it is."""

    def ask(ledger: Ledger) -> None:
        update_ledger(ledger)
        check_all(ledger)
        assert list_losses(ledger) == ()

    ask_ledger(ask)
    first = home.result()
    ask_ledger(ask)
    assert home.result() == first
    assert check_usage(None).is_right


def _was_made_again(home: ForksHome) -> bool:
    return bool(list(home.path.parent.glob("ledger.db.broken-*")))


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM seals WHERE name = 'labels'",
        "UPDATE sources SET head = 7",
        "DELETE FROM sources",
        f"DELETE FROM sources WHERE path NOT LIKE '%{G}%'",
        f"UPDATE sources SET described = '{{}}' WHERE path LIKE '%{P}%'",
    ],
)
@pytest.mark.parametrize("left", _SUBSETS, ids=lambda left: "".join(name[8] for name in left) or "none")
def test_a_damaged_ledger_knows_its_families_still(left: tuple[str, ...], damage: str) -> None:
    with forks_home() as home:
        for files in CHAIN.values():
            home.write(files)
        home.scan()
        assert _count(home) == _WHOLE
        truth = home.result()
        for name in CHAIN.keys() - {*left}:
            home.remove(CHAIN[name])
        home.forget_copies()
        home.damage(damage)
        _use(home)
        assert _was_made_again(home)
        assert _count(home) == _WHOLE
        assert _owners(home) == {10: P, 100: C, 1000: TWIN}
        if "sources" not in damage:
            assert home.result() == truth


@pytest.mark.parametrize("gone", [(), (P,), (G, P), (G, P, C)])
def test_a_copy_from_before_a_family_was_known_adds_nothing(gone: tuple[str, ...]) -> None:
    """The last of a chain is read first, and counts as of a family of its own until the others are there."""
    with forks_home() as home:
        home.write(CHAIN[C])
        home.scan()
        shutil.copy(home.path, f"{home.path}.1")
        home.write(CHAIN[G] | CHAIN[P])
        home.scan()
        before = _count(home)
        for name in gone:
            home.remove(CHAIN[name])
        home.damage("UPDATE unrecorded SET kind = 'another'")  # so that not all is right, and copies are asked
        _use(home)
        assert _count(home) == before


def test_what_became_known_after_the_damage_counts_once() -> None:
    """The ledger has the last of a chain by another family than the logs tell now."""
    with forks_home() as home:
        home.write(CHAIN[C])
        home.scan()
        home.write(CHAIN[G] | CHAIN[P])
        home.forget_copies()
        home.damage("DELETE FROM seals WHERE name = 'labels'")
        _use(home)
        assert _count(home)["events"] == [1, 10, 100]
        home.write(state(D, C) | wire(D, *CHAIN[C].values(), FORKED, turn(500, 5)))
        _use(home)


def test_a_row_of_a_file_that_is_gone_shows() -> None:
    """It may be the only one that tells a family: without it a log would be read as one of another."""
    with forks_home() as home:
        for name in (G, P, C):
            home.write(CHAIN[name])
        home.scan()
        home.remove(CHAIN[P] | CHAIN[G])
        home.damage(f"DELETE FROM sources WHERE path LIKE '%{P}%' OR path LIKE '%{C}%'")
        _use(home)
        assert _was_made_again(home) and _count(home)["events"] == [1, 10, 100]
