"""The sums by quarter of an hour, and the price of each event: made from events, and always equal to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from corral.store.ledger_rows import Pricer, Row

QUARTER_S = 900
_PICOS = 10**12

_ADD_EVENTS = f"""
INSERT INTO quarters SELECT CAST(at / {QUARTER_S} AS INTEGER), session, coalesce(model, ''), coalesce(branch, ''), 0,
    count(*), sum(input), sum(cache_read), sum(cache_write), sum(cache_write_1h), sum(output), sum(reasoning),
    coalesce(sum(dollars), 0) + coalesce(sum(picos), 0) / {_PICOS}, coalesce(sum(picos), 0) % {_PICOS},
    sum(dollars IS NULL), sum(assumed)
FROM events WHERE {{which}} GROUP BY 1, 2, 3, 4"""
_FIRST = "(SELECT {column} FROM quarters AS q WHERE q.quarter = t.quarter AND q.session = t.session LIMIT 1)"
_ADD_TURNS = f"""
INSERT INTO quarters
SELECT quarter, session, coalesce({_FIRST.format(column="model")}, ''), coalesce({_FIRST.format(column="branch")}, ''),
    turns, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM (
    SELECT CAST(at / {QUARTER_S} AS INTEGER) AS quarter, session, count(*) AS turns
    FROM deeds WHERE kind = 'turn' AND {{which}} GROUP BY 1, 2
) AS t WHERE 1
ON CONFLICT DO UPDATE SET turns = excluded.turns"""
"""Turns have no model or branch: they stand on the first row of their quarter, which spares a row."""
_PRICED_FROM = "model, model_source, at, input, cache_read, cache_write, cache_write_1h, output, reasoning, key"

_NOTES = """
CREATE TEMP TABLE touched (id INTEGER);
CREATE TEMP TABLE stale (key INTEGER);
CREATE TEMP TRIGGER event_changed AFTER UPDATE OF session, at, model, model_source, branch ON main.events BEGIN
    INSERT INTO touched VALUES (old.session), (new.session);
    INSERT INTO stale SELECT new.key
        WHERE old.at != new.at OR old.model IS NOT new.model OR old.model_source != new.model_source;
END;
CREATE TEMP TRIGGER event_gone AFTER DELETE ON main.events BEGIN
    INSERT INTO touched VALUES (old.session);
END;
CREATE TEMP TRIGGER turn_changed AFTER UPDATE OF session, at ON main.deeds BEGIN
    INSERT INTO touched VALUES (old.session), (new.session);
END;
"""
"""Which sums and prices hold no more, noted by SQLite itself: a copy takes an event from a session nobody named."""


def take_notes(db: sqlite3.Connection) -> None:
    """To be called before a transaction that changes events."""
    if db.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'touched'").fetchone():
        db.execute("DELETE FROM temp.touched")
        db.execute("DELETE FROM temp.stale")
    else:
        db.executescript(_NOTES)


def price_stale(db: sqlite3.Connection, pricer: Pricer | None) -> None:
    """Price those events anew whose time or model was noted to have changed."""
    if pricer is not None:
        stale = db.execute(f"SELECT {_PRICED_FROM} FROM events WHERE key IN (SELECT key FROM temp.stale)").fetchall()
        _price(db, stale, pricer)


def refresh_sums(db: sqlite3.Connection, sessions: Collection[int]) -> None:
    """Make the sums anew of these sessions and of those that were noted, within the caller's transaction."""
    db.executemany("INSERT INTO temp.touched VALUES (?)", [(session,) for session in sessions])
    those = "session IN (SELECT id FROM temp.touched)"
    db.execute(f"DELETE FROM quarters WHERE {those}")
    for statement in (_ADD_EVENTS, _ADD_TURNS):
        db.execute(statement.format(which=those))


def rebuild_sums(db: sqlite3.Connection) -> None:
    """Make all sums anew."""
    db.execute("DELETE FROM quarters")
    for statement in (_ADD_EVENTS, _ADD_TURNS):
        db.execute(statement.format(which="1"))


def price_all(db: sqlite3.Connection, pricer: Pricer) -> None:
    """Price every event anew, by other prices than before, and make the sums from it."""
    last = -(1 << 63)
    while rows := db.execute(
        f"SELECT {_PRICED_FROM} FROM events WHERE key > ? ORDER BY key LIMIT 10000", (last,)
    ).fetchall():
        last = rows[-1][-1]
        _price(db, rows, pricer)
    rebuild_sums(db)


def _price(db: sqlite3.Connection, rows: Iterable[Row], pricer: Pricer) -> None:
    from corral.model.usage import TokenUsage

    found: list[Row] = []
    for model, model_source, at, *tokens, event in rows:
        found.append((*pricer.price(model, model_source, at, TokenUsage(*tokens)), event))
    db.executemany("UPDATE events SET dollars = ?, picos = ?, assumed = ? WHERE key = ?", found)
