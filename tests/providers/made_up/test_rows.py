"""A CLI that records what it spends in rows of a database, which begin empty and are completed later."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator

import pytest

from corral.model.key import Home
from corral.model.usage import TokenUsage, UsageBatch, UsageEvent, UsageSource
from corral.providers.contract import Provider, Usage
from corral.providers.kit.foreign_db import need_columns, open_foreign
from corral.usage import parse_query, report_fresh
from tests.providers.made_up.stage import NAME, Stage

SCHEMA = "CREATE TABLE request (id TEXT PRIMARY KEY, session TEXT, input INTEGER, output INTEGER, changed INTEGER)"
COLUMNS = "id, session, input, output, changed"
asked_from: list[int] = []


def list_sources(home: Home, visits: object) -> Iterator[UsageSource]:
    path = f"{home.path}/store.db"
    with open_foreign(path) as db:
        sessions = [session for (session,) in db.execute("SELECT DISTINCT session FROM request ORDER BY 1")]
    if sessions:  # one table for all of them: a source of the whole home
        yield UsageSource(provider=NAME, home=home.path, scope="", session_id="", path=path, is_table=True)


def read(source: UsageSource, since: int, fd: int) -> UsageBatch:
    asked_from.append(since)
    events: list[UsageEvent] = []
    cursor = since
    with open_foreign(source.path) as db:
        need_columns(db, "request", COLUMNS.split(", "))
        query = f"SELECT {COLUMNS} FROM request WHERE changed >= ? ORDER BY changed"
        for key, session, given, made, cursor in db.execute(query, (since,)):
            tokens = TokenUsage(input=given, output=made)
            events.append(
                UsageEvent(key=key, at=float(cursor), session_id=session, agent=None, model="m", tokens=tokens)
            )
    return UsageBatch(events=events, actions=[], unrecorded=[], skipped=[], next_offset=cursor)


@pytest.fixture
def writer(stage: Stage, register: Callable[[Provider], Provider]) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(stage.home / "store.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(SCHEMA)
    db.execute("INSERT INTO request VALUES ('a', 'first', 100, 20, 1000), ('b', 'second', 0, 0, 1001)")
    register(stage.provider(usage=Usage(list_sources=list_sources, read=read)))
    asked_from.clear()
    yield db
    db.close()


def count() -> dict[str, tuple[int, int]]:
    report, _ = report_fresh(parse_query(by="session"), on_progress=None, on_doubt=lambda: None)
    assert not report.skipped
    return {str(row.key["session"]).partition(":")[2]: (row.tokens.input, row.tokens.output) for row in report.rows}


def test_rows_are_counted_and_asked_for_from_the_providers_own_cursor(writer: sqlite3.Connection) -> None:
    assert count() == {"first": (100, 20), "second": (0, 0)}
    writer.execute("INSERT INTO request VALUES ('c', 'first', 1, 2, 1005)")
    assert count() == {"first": (101, 22), "second": (0, 0)}
    assert asked_from == [0, 1001]


def test_a_row_that_is_completed_later_counts_with_the_larger_count(writer: sqlite3.Connection) -> None:
    count()
    writer.execute("UPDATE request SET input = 50, output = 7, changed = 1010 WHERE id = 'b'")
    assert count() == {"first": (100, 20), "second": (50, 7)}
    writer.execute("UPDATE request SET input = 3, output = 0, changed = 1011 WHERE id = 'b'")
    assert count() == {"first": (100, 20), "second": (50, 7)}


def test_rows_that_only_the_log_of_the_database_has_are_counted(stage: Stage, writer: sqlite3.Connection) -> None:
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    count()
    before = os.stat(stage.home / "store.db").st_mtime_ns
    writer.execute("INSERT INTO request VALUES ('c', 'first', 1, 2, 1005)")
    assert os.stat(stage.home / "store.db").st_mtime_ns == before
    assert count()["first"] == (101, 22)


def test_another_database_in_its_place_is_read_from_the_start(stage: Stage, writer: sqlite3.Connection) -> None:
    count()
    writer.close()
    os.rename(stage.home / "store.db", stage.home / "old.db")
    with sqlite3.connect(stage.home / "store.db") as other:
        other.execute(SCHEMA)
        other.execute("INSERT INTO request VALUES ('d', 'third', 5, 5, 10)")
    assert count() == {"first": (100, 20), "second": (0, 0), "third": (5, 5)}


def test_a_database_that_can_not_be_read_is_told(stage: Stage, writer: sqlite3.Connection) -> None:
    count()
    writer.execute("ALTER TABLE request RENAME COLUMN input TO given")
    report, _ = report_fresh(parse_query(by="session"), on_progress=None, on_doubt=lambda: None)
    assert "its table request has no input" in report.skipped[0].reason
    assert report.total.tokens.input == 100
