"""The ledger: each event once whatever the order, kept private, whole or not at all, and never lost to a broken file."""

from __future__ import annotations

import itertools
import stat
import threading

import pytest

from corral.model.usage import Action, TokenUsage, UsageBatch, UsageEvent, UsageSource
from corral.usage.checks import Damaged
from corral.usage.ledger import Ledger
from corral.usage.rows import Reading, SourceState, digest
from corral.usage.schema import SCHEMA
from tests.unit.usage.readings import set_schema

STATE = SourceState(1, 2, 3, 4, 5, 6, 7)


def reading(session_id: str, *keys: str, parent: str | None = None, path: str | None = None) -> Reading:
    source = UsageSource(
        provider="kimi-code",
        home="/h",
        scope="b",
        session_id=session_id,
        path=path or f"/h/{session_id}/wire.jsonl",
        work_dir="/src",
        parent_id=parent,
        family=parent,
    )
    events = [
        UsageEvent(
            key=key, at=float(number), session_id=session_id, agent=None, model="m", tokens=TokenUsage(10, 1, 0, 0, 5)
        )
        for number, key in enumerate(keys)
    ]
    actions = [Action(key=f"t{key}", at=1.0, session_id=session_id, kind="turn") for key in keys]
    batch = UsageBatch(events=events, actions=actions, unrecorded=[], skipped=[], next_offset=7)
    return Reading(source, STATE, batch, [("m", "recorded")] * len(events))


def owners(ledger: Ledger) -> dict[str, str]:
    rows = ledger.db.execute("SELECT key, session_id FROM events JOIN sessions ON sessions.id = session")
    names = {digest("kimi-code", key): key for key in ("a", "b", "c", "d", "same")}
    return {names[key]: session_id for key, session_id in rows}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_an_event_is_counted_once_and_belongs_to_its_origin_in_any_order(tmp_path, order):
    readings = [
        reading("zz-origin", "a", "b"),
        reading("aa-fork", "a", "b", "c", parent="zz-origin"),
        reading("mm", "d"),
    ]
    ledger = Ledger(str(tmp_path))
    for number in order:
        ledger.store([readings[number]])
    assert owners(ledger) == {"a": "zz-origin", "b": "zz-origin", "c": "aa-fork", "d": "mm"}
    assert ledger.db.execute("SELECT count(*), sum(input), sum(output) FROM events").fetchone() == (4, 40, 20)
    assert ledger.db.execute("SELECT count(*) FROM actions").fetchone() == (4,)


def test_copies_without_a_named_parent_belong_to_the_least_id_in_any_order(tmp_path):
    for number, order in enumerate(itertools.permutations(("b", "a", "c"))):
        ledger = Ledger(str(tmp_path / str(number)))
        for session_id in order:
            ledger.store([reading(session_id, "same")])
        assert owners(ledger) == {"same": "a"}


def test_reading_a_file_again_changes_nothing(tmp_path):
    ledger = Ledger(str(tmp_path))
    for _ in range(3):
        ledger.store([reading("s", "a", "b")])
    assert ledger.db.execute("SELECT count(*) FROM events").fetchone() == (2,)
    assert {path: state for path, (_, state) in ledger.read_sources().items()} == {"/h/s/wire.jsonl": STATE}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_event_in_a_copied_home_is_one_and_always_of_the_same_home(tmp_path, order):
    import msgspec

    ledger = Ledger(str(tmp_path))
    one = reading("s", "a")
    other = one._replace(source=msgspec.structs.replace(one.source, home="/copy", path="/copy/wire.jsonl"))
    for number in order:
        ledger.store([(one, other)[number]])
    where = "JOIN sessions ON sessions.id = session JOIN homes ON homes.id = sessions.home"
    rows = ledger.db.execute(f"SELECT path, session_id, ambiguous FROM events {where}").fetchall()
    assert rows == [("/copy", "s", 0)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_fork_of_a_fork_owns_only_what_it_said_itself(tmp_path, order):
    """The provider names parents, so the least id must not decide."""
    import msgspec

    def forked(session_id: str, generation: int, *keys: str) -> Reading:
        found = reading(session_id, *keys, parent="p")
        return found._replace(source=msgspec.structs.replace(found.source, generation=generation))

    readings = [reading("z", "a"), forked("m", 1, "a", "b"), forked("c", 2, "a", "b", "c")]
    ledger = Ledger(str(tmp_path))
    for number in order:
        ledger.store([readings[number]])
    assert owners(ledger) == {"a": "z", "b": "m", "c": "c"}
    assert ledger.db.execute("SELECT sum(ambiguous) FROM events").fetchone() == (0,)


def test_nobody_else_can_read_it(tmp_path):
    ledger = Ledger(str(tmp_path / "state"))
    ledger.store([reading("s", "a")])
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    for path in (tmp_path / "state").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_newer_schema_is_read_and_never_written(tmp_path):
    ledger = Ledger(str(tmp_path))
    ledger.store([reading("s", "a")])
    ledger.close()
    set_schema(ledger.path, SCHEMA + 1)
    newer = Ledger(str(tmp_path))
    assert newer.read_only and "newer corral" in (newer.notice or "")
    newer.store([reading("s", "b")])
    assert newer.db.execute("SELECT count(*) FROM events").fetchone() == (1,)


@pytest.mark.parametrize("damage", ["garbage", "half", "page", "nothing"])
def test_a_file_that_is_no_ledger_any_more_is_told_as_such_and_left_alone(tmp_path, damage):
    ledger = Ledger(str(tmp_path))
    ledger.store([reading(f"s{number}", *(f"k{number}-{key}" for key in range(50))) for number in range(20)])
    ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ledger.close()
    path = tmp_path / "ledger.db"
    whole = path.read_bytes()
    broken = {
        "garbage": b"not a database" * 100,
        "half": whole[: len(whole) // 2],
        "page": b"\xff" * 4096 + whole[4096:],
        "nothing": b"",
    }
    path.write_bytes(broken[damage])
    with pytest.raises(Damaged):
        Ledger(str(tmp_path)).checks.tables("events", "actions", "sessions")
    assert path.read_bytes() == broken[damage]


def test_several_writers_lose_nothing(tmp_path):
    Ledger(str(tmp_path)).close()

    def write(number: int) -> None:
        ledger = Ledger(str(tmp_path))
        for turn in range(10):
            ledger.store([reading(f"s{number}", f"{number}-{turn}", "shared")])
        ledger.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Ledger(str(tmp_path)).db.execute("SELECT count(*) FROM events").fetchone() == (41,)


def test_a_reading_that_fails_leaves_nothing_behind(tmp_path):
    ledger = Ledger(str(tmp_path))
    bad = reading("s", "a", "b")._replace(models=[("m", "recorded")])
    with pytest.raises(ValueError):
        ledger.store([reading("fine", "x"), bad])
    assert ledger.db.execute("SELECT count(*) FROM events").fetchone() == (0,)
    assert ledger.read_sources() == {}
