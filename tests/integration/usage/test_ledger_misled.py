"""Damage that leaves every row as it was: pages and indices that lead to other rows, and a number that is none.

Who goes through a whole table sees nothing of it. Who looks a row up gets another one, or none.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.usage.world import World

_PAGE = 4096


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def count(world: World, by: str) -> dict[str, int]:
    return {row["key"][by]: row["events"] for row in world.usage("--by", by)["rows"]}


def forget_answers(world: World) -> None:
    """What was found before is kept, and right: it is not asked."""
    with sqlite3.connect(world.state / "ledger.db") as db:
        db.execute("DELETE FROM memo WHERE name LIKE 'report%'")
    db.close()


def read_page(world: World, name: str) -> tuple[int, bytes]:
    """Where the first page of a table or index begins, and what is on it."""
    path = world.state / "ledger.db"
    with sqlite3.connect(path) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    begin = (root - 1) * _PAGE
    return begin, path.read_bytes()[begin : begin + _PAGE]


def write_page(world: World, begin: int, page: bytes) -> None:
    with open(world.state / "ledger.db", "r+b") as file:
        file.seek(begin)
        file.write(page)


def is_made_again(world: World) -> bool:
    return bool(list(world.state.glob("ledger.db.broken-*")))


def mislead(world: World) -> None:
    """The pages below are told apart by the largest number on each: some rows of the first are looked for on the next."""
    begin, page = read_page(world, "sessions")
    assert page[0] == 5, "one page holds all of them"
    cell = int.from_bytes(page[12:14])
    assert 20 < page[cell + 4] < 128
    write_page(world, begin, page[: cell + 4] + bytes([page[cell + 4] - 10]) + page[cell + 5 :])


def test_a_page_that_leads_to_other_rows_hides_none(world: World) -> None:
    for number in (*range(0, 150, 2), *range(1, 150, 2)):
        world.number += 900 if number == 1 else 0
        world.session(f"session-{number:03}", world.line())
    truth = count(world, "session")
    assert len(truth) == 150
    forget_answers(world)
    mislead(world)
    assert count(world, "session") == truth and is_made_again(world)


def test_a_copy_whose_original_is_not_found_counts_once(world: World) -> None:
    """One line of a session whose others are on the same page: only looking for it would tell."""
    copied = [world.line() for _ in range(300)]
    for number, line in enumerate(copied):
        world.session(f"session-{number:03}", line)
    assert world.events() == 300
    begin, page = read_page(world, "events")
    assert page[0] == 5
    with sqlite3.connect(world.state / "ledger.db") as db:
        rows = db.execute(
            "SELECT key, session_id FROM events JOIN sessions ON sessions.id = session ORDER BY 1"
        ).fetchall()
    db.close()
    cell = int.from_bytes(page[12:14]) + 4
    largest = int.from_bytes(bytes_of_varint(page[cell : cell + 9]), signed=True)
    place = [key for key, _ in rows].index(largest)
    lower = varint_of(rows[place - 2][0])  # the last two of the first page are looked for on the second
    write_page(world, begin, page[:cell] + lower + page[cell + 9 :])
    world.session("a-fork", copied[int(rows[place][1][-3:])])
    assert world.events() == 300 and is_made_again(world)


def bytes_of_varint(data: bytes) -> bytes:
    """Of nine bytes: seven bits of each of the first eight, and all of the last."""
    number = 0
    for byte in data[:8]:
        number = number << 7 | byte & 127
    return (number << 8 | data[8]).to_bytes(8)


def varint_of(number: int) -> bytes:
    number %= 1 << 64
    return bytes([number >> 8 + 7 * (7 - place) & 127 | 128 for place in range(8)] + [number & 255])


def learn_models(world: World, first: str, then: str) -> None:
    for model in (first, then):
        world.set_model(model)
        world.session(f"of-{model}", world.line())
        world.events()


def learn_sessions(world: World, first: str, then: str) -> None:
    for name in (first, then):
        world.session(name, world.line())
        world.events()


@pytest.mark.parametrize(
    ("learn", "index", "by"),
    [
        (learn_models, "sqlite_autoindex_labels_1", "model"),
        (learn_sessions, "sqlite_autoindex_sessions_1", "session"),
    ],
)
def test_an_index_that_leads_to_another_row_is_not_followed(
    tmp_path: Path, learn: Callable[[World, str, str], None], index: str, by: str
) -> None:
    """The same names under other numbers, as a ledger has them that learned them the other way round."""
    place = tmp_path / "home"
    place.mkdir()
    other = World(place)
    learn(other, "aaaa", "bbbb")
    _, page = read_page(other, index)
    os.rename(place, tmp_path / "first")
    place.mkdir()
    world = World(place)
    learn(world, "bbbb", "aaaa")
    begin, own = read_page(world, index)
    assert page != own
    write_page(world, begin, page)
    for name in ("aaaa", "bbbb"):
        world.set_model(name)
        world.session(f"of-{name}" if by == "model" else name, world.line(), world.line())
        forget_answers(world)
        found = count(world, by)
        assert {key.removeprefix("kimi-cli:"): events for key, events in found.items()}[name] == 3, found
    assert is_made_again(world)


def test_a_home_is_not_taken_for_another(tmp_path: Path) -> None:
    def learn(place: Path, order: tuple[str, str]) -> World:
        place.mkdir()
        world = World(place)
        for name in order:
            (place / name).mkdir()
            for number, line in enumerate((world.line(), world.line())):
                path = place / name / "sessions" / world.bucket.name / f"{name}-{number}"
                path.mkdir(parents=True)
                (path / "wire.jsonl").write_text(line)
            world.run("usage", KIMI_SHARE_DIR=str(place / name))
        return world

    place = tmp_path / "home"
    _, page = read_page(learn(place, ("one", "two")), "sqlite_autoindex_homes_1")
    os.rename(place, tmp_path / "first")
    world = learn(place, ("two", "one"))
    begin, own = read_page(world, "sqlite_autoindex_homes_1")
    assert page != own
    write_page(world, begin, page)
    for name in ("one", "two"):
        path = place / name / "sessions" / world.bucket.name / f"{name}-late"
        path.mkdir()
        (path / "wire.jsonl").write_text(world.line())
    assert world.run("usage").returncode == 0
    asked = world.run("sql", "--csv", "SELECT home, session_id FROM usage_sessions WHERE session_id LIKE '%-late'")
    assert sorted(asked.stdout.split()[1:]) == [f"{place}/{name},{name}-late" for name in ("one", "two")]
    assert is_made_again(world)


def test_a_number_that_is_none_any_more_shows(world: World) -> None:
    """A sum of no number is no number, and equal to nothing as well as unequal."""
    world.session("s", world.line())
    assert world.events() == 1
    forget_answers(world)
    begin, page = read_page(world, "quarters")
    cell = int.from_bytes(page[8:10])
    kinds = cell + 2  # after the length of the row and that of its head
    assert page[kinds - 1] == 17  # one byte for each of 16 columns, and its own
    assumed = kinds + 14
    assert page[assumed] in (8, 9)  # a number without bytes: 0 or 1
    write_page(world, begin, page[:assumed] + b"\0" + page[assumed + 1 :])
    assert count(world, "session") == {"kimi-cli:s": 1} and is_made_again(world)


def test_a_note_that_is_kept_is_made_again_where_it_is_damaged(world: World) -> None:
    place = world.root / ".config" / "corral"
    place.mkdir(parents=True)
    (place / "config.toml").write_text('[prices."kimi-k2.5"]\nas = "nonesuch"\n')
    world.session("s", world.line())
    notes = world.usage()["notes"]
    assert "nonesuch" in notes[0]
    with sqlite3.connect(world.state / "ledger.db") as db:
        assert db.execute("UPDATE memo SET sum = 7 WHERE name = 'unknown prices'").rowcount
    db.close()
    assert world.usage()["notes"] == notes


def test_other_prices_do_not_seal_turns_that_are_wrong(world: World) -> None:
    """Sums are made again from requests and turns when prices change: both have to be right."""
    turns = [
        f'{{"timestamp": {1794000000 + n}, "message": {{"type": "TurnBegin", "payload": {{"user_input": "x"}}}}}}\n'
        for n in range(5)
    ]
    world.session("s", *(line for turn in turns for line in (turn, world.line())))
    assert world.usage()["total"]["turns"] == 5
    with sqlite3.connect(world.state / "ledger.db") as db:
        db.execute("DELETE FROM actions WHERE at = 1794000002")
    db.close()
    place = world.root / ".config" / "corral"
    place.mkdir(parents=True)
    (place / "config.toml").write_text('[prices."kimi-k2.5"]\ninput = 9\n')
    assert world.usage()["total"]["turns"] == 5 and is_made_again(world)
