"""Readings made by hand, and a pricer whose prices depend on everything a real one's do."""

from __future__ import annotations

import sqlite3

from corral.model.usage import Action, TokenUsage, UsageBatch, UsageEvent, UsageSource
from corral.usage.checks import COLUMNS, SUM_FUNCTION, WHOLE, Checks, add_functions, put_seal
from corral.usage.ledger import Ledger
from corral.usage.rows import Reading, SourceState
from corral.usage.schema import set_shape

STATE = SourceState(1, 2, 3, 4, 5, 6, 7)


class MadeUpPricer:
    """Prices by model, day and size of the request; "free" has no price."""

    def __init__(self, stamp: str = "one", factor: int = 1) -> None:
        self.stamp = stamp
        self._factor = factor

    def price(
        self, model: str | None, model_source: str, at: float, tokens: TokenUsage
    ) -> tuple[int | None, int | None, int]:
        if model is None or model == "free":
            return None, None, 0
        rate = 999_999_999_937 if tokens.input > 200 else 123_456_789
        whole = self._factor * rate * tokens.total * (1 + int(at // 86_400) % 3) * len(model)
        return *divmod(whole, 10**12), int(model_source != "recorded")

    def list_origins(self, model: str, first: float, last: float) -> list[tuple[str, str, str, int]]:
        return [] if model == "free" else [(model.upper(), f"made up {self.stamp}", "2026-01-01", 0)]


def reading(
    session_id: str,
    events: list[tuple[str, float, int, str | None]],
    *,
    parent: str | None = None,
    model_source: str = "recorded",
    since: int = 0,
    turns: bool = True,
) -> Reading:
    """Of events by key, time, input tokens and model; with a turn beside each."""
    source = UsageSource(
        provider="kimi-code",
        home="/h",
        scope="b",
        session_id=session_id,
        path=f"/h/{session_id}/wire.jsonl",
        work_dir=f"/src/{session_id[:1]}",
        parent_id=parent,
        family=parent,
    )
    batch = UsageBatch(
        events=[
            UsageEvent(
                key=key, at=at, session_id=session_id, agent=None, model=model, tokens=TokenUsage(tokens, 1, 0, 2, 5)
            )
            for key, at, tokens, model in events
        ],
        actions=[Action(key=f"t{key}", at=at, session_id=session_id, kind="turn") for key, at, _, _ in events if turns],
        unrecorded=[],
        skipped=[],
        next_offset=7,
    )
    return Reading(source, STATE, batch, [(model, model_source) for _, _, _, model in events], since)


def kept_sums(ledger: Ledger) -> dict[tuple[object, ...], tuple[int, ...]]:
    """By quarter, session, model and branch: everything but the turns, which stand on one row of their quarter."""
    columns = "quarter, session, model, branch, turns, events, input, cache_read, cache_write, cache_write_1h, output"
    rows = ledger.db.execute(
        f"SELECT {columns}, reasoning, dollars, picos, unpriced, assumed FROM quarters JOIN labels ON labels.id = label"
        " WHERE events > 0"
    ).fetchall()
    return {row[:4]: (*row[5:12], row[12] * 10**12 + row[13], *row[14:]) for row in rows}


def check_all(ledger: Ledger) -> None:
    """Raises Damaged unless every row, seal and sum is right."""
    checks = Checks(ledger.db)
    checks.all()
    checks.sessions(session for (session,) in ledger.db.execute("SELECT id FROM sessions").fetchall())


def set_schema(path: str, schema: int) -> None:
    """As if another corral had made it."""
    db = sqlite3.connect(path)
    db.execute("UPDATE about SET schema = ?", (schema,))
    set_shape(db)
    db.commit()
    db.close()


def to_schema_4(path: str) -> None:
    """As 0.1.0 would have made it."""
    db = sqlite3.connect(path)
    add_functions(db)
    db.executescript("ALTER TABLE sources DROP COLUMN deferred; ALTER TABLE actions RENAME TO deeds")
    columns = COLUMNS["sources"].replace("deferred, ", "")
    db.execute(f"UPDATE sources SET sum = {SUM_FUNCTION}({columns})")
    put_seal(db, "sources", WHOLE, db.execute("SELECT count(*), sum(sum) FROM sources").fetchone())
    (seal,) = db.execute("SELECT rows, total FROM seals WHERE name = 'actions'").fetchall()
    db.execute("DELETE FROM seals WHERE name = 'actions'")
    put_seal(db, "deeds", WHOLE, seal)
    db.commit()
    db.close()
    set_schema(path, 4)


def true_sums(ledger: Ledger) -> dict[tuple[object, ...], tuple[int, ...]]:
    """The same, added up by hand from the events."""
    found: dict[tuple[object, ...], list[int]] = {}
    for session, at, model, branch, *tokens, dollars, picos, assumed in ledger.db.execute(
        "SELECT session, at, model, branch, input, cache_read, cache_write, cache_write_1h, output, reasoning, dollars,"
        " picos, assumed FROM events"
    ):
        sums = found.setdefault((int(at // 900), session, model or "", branch or ""), [0] * 10)
        cost = 0 if dollars is None else dollars * 10**12 + picos
        for place, number in enumerate((1, *tokens, cost, int(dollars is None), assumed)):
            sums[place] += number
    return {key: tuple(sums) for key, sums in found.items()}


def kept_turns(ledger: Ledger) -> dict[tuple[int, int], int]:
    rows = ledger.db.execute("SELECT quarter, session, sum(turns) FROM quarters GROUP BY 1, 2 HAVING sum(turns)")
    return {(quarter, session): turns for quarter, session, turns in rows}


def true_turns(ledger: Ledger) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for at, session in ledger.db.execute("SELECT at, session FROM actions WHERE kind = 'turn'"):
        key = (int(at // 900), session)
        found[key] = found.get(key, 0) + 1
    return found
