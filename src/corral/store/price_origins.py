"""Whose price each model has in the ledger, and of which day: beside every sum of money stands where it comes from."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.store.ledger_rows import Pricer, Rows

_SPANS = "SELECT model, min(at), max(at) FROM events WHERE model IS NOT NULL GROUP BY model"


def note_origins(db: sqlite3.Connection, pricer: Pricer, stored: Iterable[Rows]) -> None:
    """Of the models in rows that were stored, within the caller's transaction."""
    spans: dict[str, tuple[float, float]] = {}
    for rows in stored:
        for row in rows.events:
            at, model = row[3], row[5]
            if model is not None:
                first, last = spans.get(model, (at, at))
                if at < first or at > last or model not in spans:
                    spans[model] = (min(first, at), max(last, at))
    _note(db, pricer, ((model, *span) for model, span in spans.items()))


def note_all_origins(db: sqlite3.Connection, pricer: Pricer) -> None:
    """Of every model, by other prices than before."""
    db.execute("DELETE FROM prices")
    _note(db, pricer, db.execute(_SPANS).fetchall())


def _note(db: sqlite3.Connection, pricer: Pricer, spans: Iterable[tuple[str, float, float]]) -> None:
    found = [(model, *origin) for model, first, last in spans for origin in pricer.list_origins(model, first, last)]
    db.executemany(
        "INSERT OR IGNORE INTO prices (model, listed_as, source, dated, assumed) VALUES (?, ?, ?, ?, ?)", found
    )
