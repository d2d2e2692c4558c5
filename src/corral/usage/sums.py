"""The sums by quarter of an hour, and the price of each event: made from events, and always equal to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from corral.model.prices import PICOS
from corral.model.usage import TokenUsage
from corral.usage.checks import DAY, QUARTER_S, SUM_OF_NUMBERS, SUMS, WHOLE, Damaged, Seal, put_seal, set_sums
from corral.usage.rows import Pricer, Row

_ADD_LABELS = """
INSERT OR IGNORE INTO labels (model, branch)
SELECT DISTINCT coalesce(model, ''), coalesce(branch, '') FROM events WHERE {which} UNION SELECT '', '' ORDER BY 1, 2"""
_ADD_EVENTS = f"""
INSERT INTO quarters ({", ".join(SUMS)}) SELECT CAST(at / {QUARTER_S} AS INTEGER), session, labels.id, 0, count(*),
    sum(input), sum(cache_read), sum(cache_write), sum(cache_write_1h), sum(output), sum(reasoning),
    coalesce(sum(dollars), 0) + coalesce(sum(picos), 0) / {PICOS}, coalesce(sum(picos), 0) % {PICOS},
    sum(dollars IS NULL), sum(assumed)
FROM events JOIN labels ON labels.model = coalesce(events.model, '') AND labels.branch = coalesce(events.branch, '')
WHERE {{which}} GROUP BY 1, 2, 3"""
_FIRST = "(SELECT label FROM quarters AS q WHERE q.quarter = t.quarter AND q.session = t.session LIMIT 1)"
_UNNAMED = "(SELECT id FROM labels WHERE model = '' AND branch = '')"
_ADD_TURNS = f"""
INSERT INTO quarters ({", ".join(SUMS)})
SELECT quarter, session, coalesce({_FIRST}, {_UNNAMED}), turns, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM (
    SELECT CAST(at / {QUARTER_S} AS INTEGER) AS quarter, session, count(*) AS turns
    FROM actions WHERE kind = 'turn' AND {{which}} GROUP BY 1, 2
) AS t WHERE 1
ON CONFLICT DO UPDATE SET turns = excluded.turns"""
"""Turns have no model or branch: they are on the first row of their quarter, which saves a row."""
_PRICED_FROM = "model, model_source, at, input, cache_read, cache_write, cache_write_1h, output, reasoning, key"

_NOTES = """
CREATE TEMP TABLE touched (id INTEGER);
CREATE TEMP TABLE stale (key INTEGER);
CREATE TEMP TRIGGER event_changed AFTER UPDATE OF session, at, model, model_source, branch, input, cache_read,
    cache_write, cache_write_1h, output, reasoning ON main.events BEGIN
    INSERT INTO touched VALUES (old.session), (new.session);
    INSERT INTO stale SELECT new.key
        WHERE old.at != new.at OR old.model IS NOT new.model OR old.model_source != new.model_source
            OR (old.input, old.cache_read, old.cache_write, old.cache_write_1h, old.output, old.reasoning)
                != (new.input, new.cache_read, new.cache_write, new.cache_write_1h, new.output, new.reasoning);
END;
CREATE TEMP TRIGGER event_gone AFTER DELETE ON main.events BEGIN
    INSERT INTO touched VALUES (old.session);
END;
CREATE TEMP TRIGGER turn_gone AFTER DELETE ON main.actions BEGIN
    INSERT INTO touched VALUES (old.session);
END;
CREATE TEMP TRIGGER turn_changed AFTER UPDATE OF session, at ON main.actions BEGIN
    INSERT INTO touched VALUES (old.session), (new.session);
END;
"""
"""Which sums and prices are out of date, noted by SQLite itself: a copy takes an event from a session nobody named."""


def take_notes(db: sqlite3.Connection) -> None:
    """To be called before a transaction that changes events."""
    if db.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'touched'").fetchone():
        db.execute("DELETE FROM temp.touched")
        db.execute("DELETE FROM temp.stale")
    else:
        db.executescript(_NOTES)


def price_stale(db: sqlite3.Connection, pricer: Pricer | None) -> None:
    """Price those events again whose time or model was noted to have changed."""
    if pricer is not None:
        stale = db.execute(f"SELECT {_PRICED_FROM} FROM events WHERE key IN (SELECT key FROM temp.stale)").fetchall()
        _price(db, stale, pricer)


def refresh_sums(db: sqlite3.Connection, sessions: Collection[int]) -> set[int]:
    """Make the sums again of these sessions and of those that were noted, within the caller's transaction; which.

    Raises Damaged where the sums that were there are not those that were sealed.
    """
    db.executemany("INSERT INTO temp.touched VALUES (?)", [(session,) for session in sessions])
    those = "session IN (SELECT id FROM temp.touched)"
    before = _tally_days(db, those)
    db.execute(f"DELETE FROM quarters WHERE {those}")
    _add_sums(db, those)
    after = _tally_days(db, those)
    sealed = _read_day_seals(db)
    for day in before.keys() | after.keys():
        (less_rows, less), (more_rows, more), (rows, total) = (
            some.get(day, (0, 0)) for some in (before, after, sealed)
        )
        seal = (rows - less_rows + more_rows, total - less + more)
        if min(seal) < 0:
            raise Damaged("sums are not as they were written")
        sealed[day] = seal
        put_seal(db, "quarters", day, seal)
    _seal_whole(db, sealed)
    return {one for (one,) in db.execute("SELECT DISTINCT id FROM temp.touched")}


def rebuild_sums(db: sqlite3.Connection) -> None:
    """Make all sums again."""
    for table in ("quarters", "labels"):
        db.execute(f"DELETE FROM {table}")
    _add_sums(db, "1")
    db.execute("DELETE FROM seals WHERE name = 'quarters'")
    days = _tally_days(db, "1")
    for day, seal in days.items():
        put_seal(db, "quarters", day, seal)
    _seal_whole(db, days)


def _add_sums(db: sqlite3.Connection, which: str) -> None:
    for statement in (_ADD_LABELS, _ADD_EVENTS, _ADD_TURNS):
        db.execute(statement.format(which=which))
    db.execute(f"UPDATE quarters SET sum = {SUM_OF_NUMBERS} WHERE {which}")
    set_sums(db, "labels")
    counted = (
        f"SELECT coalesce(sum(events), 0), (SELECT count(*) FROM events WHERE {which}) FROM quarters WHERE {which}"
    )
    added, there = db.execute(counted).fetchone()
    if added != there:
        raise Damaged("the index of labels does not have one that is there")


def _tally_days(db: sqlite3.Connection, which: str) -> dict[int, Seal]:
    rows = db.execute(f"SELECT quarter / {DAY}, count(*), sum(sum) FROM quarters WHERE {which} GROUP BY 1")
    return {day: (count, total) for day, count, total in rows}


def _read_day_seals(db: sqlite3.Connection) -> dict[int, Seal]:
    rows = db.execute("SELECT part, rows, total FROM seals WHERE name = 'quarters' AND part != ?", (WHOLE,))
    return {day: (count, total) for day, count, total in rows}


def _seal_whole(db: sqlite3.Connection, days: dict[int, Seal]) -> None:
    put_seal(db, "quarters", WHOLE, (sum(seal[0] for seal in days.values()), sum(seal[1] for seal in days.values())))
    db.execute("DELETE FROM seals WHERE name = 'quarters' AND part != ? AND rows = 0", (WHOLE,))


def price_all(db: sqlite3.Connection, pricer: Pricer) -> None:
    """Price every event again, by other prices than before, and make the sums from it."""
    last = -(1 << 63)
    while rows := db.execute(
        f"SELECT {_PRICED_FROM} FROM events WHERE key > ? ORDER BY key LIMIT 10000", (last,)
    ).fetchall():
        last = rows[-1][-1]
        _price(db, rows, pricer)
    rebuild_sums(db)


def _price(db: sqlite3.Connection, rows: Iterable[Row], pricer: Pricer) -> None:
    found: list[Row] = []
    for model, model_source, at, *tokens, event in rows:
        found.append((*pricer.price(model, model_source, at, TokenUsage(*tokens)), event))
    db.executemany("UPDATE events SET dollars = ?, picos = ?, assumed = ? WHERE key = ?", found)
