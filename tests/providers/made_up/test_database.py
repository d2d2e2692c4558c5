"""A CLI whose sessions are rows of a database that it has open: sub-agents with a parent among them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

import pytest

from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import SessionRecord, TurnState
from corral.model.verdict import State
from corral.providers.kit.foreign_db import need_columns, open_foreign
from tests.providers.made_up.stage import Stage, record

SCHEMA = "CREATE TABLE session (id TEXT PRIMARY KEY, parent TEXT, title TEXT, busy INTEGER)"


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord]:
    path = f"{home.path}/store.db"
    with open_foreign(path) as db:
        need_columns(db, "session", ("id", "parent", "title", "busy"))
        for session_id, parent, title, busy in db.execute("SELECT id, parent, title, busy FROM session ORDER BY id"):
            turn = TurnState.OPEN if busy else TurnState.ENDED
            yield record(home.path, session_id, path=path, parent_id=parent, title=title, turn=turn)


@pytest.fixture
def writer(stage: Stage) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(stage.home / "store.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(SCHEMA)
    db.execute("INSERT INTO session VALUES ('first', NULL, 'hello', 0), ('inner', 'first', NULL, 1)")
    yield db
    db.close()


def beside(stage: Stage) -> set[str]:
    return {name for name in os.listdir(stage.home) if name.startswith("store.db")}


def test_rows_are_sessions_while_their_cli_writes(stage: Stage, writer: sqlite3.Connection) -> None:
    found = stage.sessions(stage.provider(list_sessions=list_sessions))
    assert {name: one.state for name, one in found.items()} == {"first": State.IDLE, "inner": State.ORPHANED}
    inner = found["inner"].record
    assert inner is not None and inner.parent_id == "first"
    writer.execute("INSERT INTO session VALUES ('second', NULL, 'more', 0)")
    assert "second" in stage.sessions(stage.provider(list_sessions=list_sessions))


WRITER = """
import sqlite3
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute(sys.argv[2])
db.execute("INSERT INTO session VALUES ('first', NULL, 'hello', 0)")
db.execute("SELECT * FROM session").fetchall()
"""


def test_looking_changes_no_byte_of_it_while_it_is_open_and_after_its_cli_was_killed(stage: Stage) -> None:
    stage.start(WRITER, str(stage.home / "store.db"), SCHEMA)
    for _ in ("open", "killed"):
        before = {name: (stage.home / name).read_bytes() for name in beside(stage)}
        assert "first" in stage.sessions(stage.provider(list_sessions=list_sessions))
        assert {name: (stage.home / name).read_bytes() for name in beside(stage)} == before and len(before) == 3
        stage.end()


def test_looking_into_a_closed_database_leaves_no_file_behind(stage: Stage, writer: sqlite3.Connection) -> None:
    writer.close()
    assert beside(stage) == {"store.db"}
    assert set(stage.sessions(stage.provider(list_sessions=list_sessions))) == {"first", "inner"}
    assert beside(stage) == {"store.db"}


def test_a_database_can_not_be_written_through_it(stage: Stage, writer: sqlite3.Connection) -> None:
    with open_foreign(str(stage.home / "store.db")) as db, pytest.raises(sqlite3.OperationalError):
        db.execute("DELETE FROM session")


@pytest.mark.parametrize("damage", ["DROP TABLE session", "ALTER TABLE session RENAME COLUMN parent TO origin"])
def test_another_schema_is_told_and_ends_nothing(stage: Stage, writer: sqlite3.Connection, damage: str) -> None:
    writer.execute(damage)
    survey = stage.look(stage.provider(list_sessions=list_sessions))
    (told,) = survey.degraded
    assert told.step == f"read {stage.home}" and "its table session has no" in told.reason
    assert survey.unlisted == (str(stage.home),)


def test_a_database_that_is_none_is_told(stage: Stage) -> None:
    (stage.home / "store.db").write_bytes(b"not a database" * 100)
    (told,) = stage.look(stage.provider(list_sessions=list_sessions)).degraded
    assert told.reason.startswith("DatabaseError: ")
