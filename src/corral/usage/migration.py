"""Bringing a ledger that an earlier release made to this schema, in place: nothing that it knows is read again."""

from __future__ import annotations

import sqlite3

from corral.usage.checksums import COLUMNS, FORMER_TABLES, NEW_COLUMNS, Damaged, is_right, select_rows, set_sums
from corral.usage.ledger_checks import WHOLE, put_seal, seal_table

RELEASED = 4
"""The schema of 0.1.0: the earliest that can be brought up."""


def migrate(db: sqlite3.Connection) -> None:
    """From schema 4 to 5, within the caller's transaction. Raises Damaged: damage must not be sealed as right.

    Files may wait to be read (`sources.deferred`), and turns and tool calls are called `actions`.
    """
    names = [name for name in COLUMNS["sources"].split(", ") if name not in NEW_COLUMNS]
    rows = db.execute(f"SELECT {', '.join(names)}, sum FROM sources NOT INDEXED").fetchall()
    seals = {row[0]: row for row in db.execute(f"{select_rows('seals')} WHERE part = ?", (WHOLE,))}
    found = (len(rows), sum(row[-1] for row in rows))
    if not all(map(is_right, (*rows, *seals.values()))) or seals.get("sources", ())[2:4] != found:
        raise Damaged("what it knows of files is not as it was written")
    db.execute("ALTER TABLE sources ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0")
    set_sums(db, "sources")
    seal_table(db, "sources")
    for now, former in FORMER_TABLES.items():
        if former not in seals:
            raise Damaged("the checksum of a table is missing")
        db.execute(f"ALTER TABLE {former} RENAME TO {now}")
        db.execute("DELETE FROM seals WHERE name = ?", (former,))
        put_seal(db, now, WHOLE, seals[former][2:4])
