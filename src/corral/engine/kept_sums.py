"""The rows behind the last report on everything, kept in the ledger: they hold as long as nothing is stored."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from corral.store.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.store.ledger_rows import Row

ROWS, UNRECORDED = "report", "report.unrecorded"


def find_rows(ledger: Ledger, name: str, question: object, add_up: Callable[[], list[Row]]) -> list[Row]:
    """What `add_up` gives for a question; equal questions of an unchanged ledger have equal rows.

    Under each name the answer to one question is kept, by `keep_found`.
    """
    asked = repr(question)
    with ledger.reading():  # so that the state and the rows are of one moment
        state = ledger.find_state()
        kept = ledger.find_memo(name)
        if kept and state is not None:
            known = json.loads(kept)
            if known[:2] == [state.hex(), asked]:
                return [tuple(row) for row in known[2]]
        rows = add_up()
    if state is not None and not ledger.changed:  # who just stored something is likely to store more
        ledger.answers[name] = json.dumps((state.hex(), asked, rows)).encode()
    return rows


def keep_found(ledger: Ledger) -> None:
    """Keep what was just found, if nobody is writing: nothing is lost without it."""
    if not ledger.answers or ledger.db.in_transaction:
        return
    (patience,) = ledger.db.execute("PRAGMA busy_timeout").fetchone()
    ledger.db.execute("PRAGMA busy_timeout = 0")
    try:
        with suppress(sqlite3.OperationalError):
            ledger.keep_memos(ledger.answers)
    finally:
        ledger.answers = {}
        ledger.db.execute(f"PRAGMA busy_timeout = {patience}")
