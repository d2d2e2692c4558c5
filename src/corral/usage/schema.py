"""The tables of ledger.db: making them, finding which schema a file has, and bringing an earlier one up in place."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from zlib import crc32

from corral.state.private_file import read_only_uri
from corral.usage.checks import (
    COLUMNS,
    FORMER_TABLES,
    NEW_COLUMNS,
    WHOLE,
    Damaged,
    is_right,
    put_seal,
    seal_all,
    seal_table,
    select_rows,
    sum_row,
)
from corral.usage.sums import rebuild_sums
from corral.version import __version__

SCHEMA = 5
_RELEASED = 4
"""The schema of 0.1.0: the earliest that can be brought up."""
DEFERRED = "deferred"
"""The memo of how many logs wait: a row of `sources` that is not as it was written must not hide one."""
_NONE_DEFERRED = b"0 0 0"


def read_statements() -> list[str]:
    """Those that make an empty ledger."""
    with open(os.path.join(os.path.dirname(__file__), "ledger.sql"), encoding="utf-8") as file:
        return file.read().split(";\n")


def find_schema(db: sqlite3.Connection) -> int:
    """Raises Damaged where this is no ledger, or one whose tables and indices are not as they were made."""
    columns = [row[1] for row in db.execute("PRAGMA table_info(about)")]
    if columns[:2] != ["schema", "made_by"]:
        raise Damaged("there is no ledger in it")
    rows = db.execute("SELECT * FROM about").fetchall()
    schema = rows[0][0] if len(rows) == 1 else None
    if not isinstance(schema, int):
        raise Damaged("nothing says what it is")
    if len(columns) > 2 and rows[0][2] != _sum_shape(db):
        raise Damaged("its tables and indices are not as they were made")
    return schema


def is_newer(path: str) -> bool:
    """Whether it can be shown that a newer corral made it."""
    db = sqlite3.connect(read_only_uri(path), uri=True)
    try:
        return find_schema(db) > SCHEMA
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    finally:
        db.close()


def _sum_shape(db: sqlite3.Connection) -> int:
    about = db.execute("SELECT schema, made_by FROM about").fetchone()
    return sum_row(*about, *db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2"))


def set_shape(db: sqlite3.Connection) -> None:
    """Tables and indices are right as they are."""
    db.execute("UPDATE about SET shape = ?", (_sum_shape(db),))


@contextmanager
def transaction(db: sqlite3.Connection) -> Generator[None]:
    """All that is written within, or nothing; writers take turns."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def create(db: sqlite3.Connection) -> None:
    """Make the tables, unless another process just did."""
    with transaction(db):
        if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            for statement in read_statements():
                db.execute(statement)
            db.execute("INSERT INTO about VALUES (?, ?, 0)", (SCHEMA, __version__))
            set_shape(db)
            rebuild_sums(db)
            put_memo(db, DEFERRED, _NONE_DEFERRED)
            seal_all(db)


def migrate(db: sqlite3.Connection) -> None:
    """Bring a ledger of an earlier release up, unless another process just did. Raises Damaged."""
    with transaction(db):
        found = find_schema(db)
        if found < _RELEASED:
            raise Damaged(f"it is from before the first release, schema {found}")
        if found < SCHEMA:
            _migrate_from_4(db)
            put_memo(db, DEFERRED, _NONE_DEFERRED)
            db.execute("UPDATE about SET schema = ?, made_by = ?", (SCHEMA, __version__))
            set_shape(db)


def _migrate_from_4(db: sqlite3.Connection) -> None:
    """Files may wait to be read (`sources.deferred`), and turns and tool calls are called `actions`.

    Raises Damaged: damage must not be sealed as right.
    """
    names = [name for name in COLUMNS["sources"].split(", ") if name not in NEW_COLUMNS]
    rows = db.execute(f"SELECT {', '.join(names)}, sum FROM sources NOT INDEXED").fetchall()
    seals = {row[0]: row for row in db.execute(f"{select_rows('seals')} WHERE part = ?", (WHOLE,))}
    found = (len(rows), sum(row[-1] for row in rows))
    if not all(map(is_right, (*rows, *seals.values()))) or seals.get("sources", ())[2:4] != found:
        raise Damaged("what it knows of files is not as it was written")
    db.execute("ALTER TABLE sources ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0")
    seal_table(db, "sources")
    for now, former in FORMER_TABLES.items():
        if former not in seals:
            raise Damaged("the checksum of a table is missing")
        db.execute(f"ALTER TABLE {former} RENAME TO {now}")
        db.execute("DELETE FROM seals WHERE name = ?", (former,))
        put_seal(db, now, WHOLE, seals[former][2:4])


def put_memo(db: sqlite3.Connection, name: str, value: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO memo VALUES (?, ?, ?)", (name, value, sum_memo(name, value)))


def sum_memo(name: str, value: object) -> int:
    """A value can be long: it is summed as it is, and not as Python writes it."""
    return crc32(value, crc32(name.encode())) if isinstance(value, bytes) else -1
