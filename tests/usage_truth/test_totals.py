"""`corral usage` on generated homes equals what was spent: to the token, to the cent, session by session."""

from __future__ import annotations

import sqlite3
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from tests.usage_truth.truth import Tokens
from tests.usage_truth.world import World

SEEDS = range(30)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_is_counted_once_and_nothing_else(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    world.write()
    truth = world.truth
    report = world.usage("--by", "session,model")
    _compare_events(world)
    total = report["total"]
    assert total["events"] == len(truth.requests)
    found = total["tokens"]
    kinds = ("input", "cache_read", "cache_write", "output", "reasoning")
    assert Tokens(*(found[kind] for kind in kinds)) == truth.tokens()
    assert found["cache_write_1h"] == 0
    assert Decimal(total["cost"]["amount"]) == truth.cost()
    assert total["cost"]["unpriced_events"] == sum(one.cost is None for one in truth.requests.values())
    rows = {(row["key"]["session"], row["key"]["model"]): row["events"] for row in report["rows"]}
    assert rows == Counter((f"{one.provider}:{one.session_id}", one.model) for one in truth.requests.values())
    unrecorded = {(row["provider"], row["kind"]): row["events"] for row in report["unrecorded"] if row["events"]}
    assert unrecorded == Counter(truth.unrecorded.values())
    calls = {row["key"]["tool"]: row["calls"] for row in world.usage("--by", "tool")["rows"]}
    assert calls == Counter(truth.tools.values())
    skips = Counter(row["path"].removeprefix(f"{tmp_path}/") for row in report["skipped"])
    assert skips == truth.skips


def _compare_events(world: World) -> None:
    """Request by request, so that a difference names itself."""
    db = sqlite3.connect(world.ledger_path)
    rows = db.execute(
        "SELECT provider, session_id, round(at, 3), model, agent, input, cache_read, cache_write, output, reasoning,"
        " ambiguous FROM events JOIN sessions ON sessions.id = session JOIN homes ON homes.id = sessions.home"
    ).fetchall()
    (turns,) = db.execute("SELECT count(*) FROM actions WHERE kind = 'turn'").fetchone()
    db.close()
    truth = world.truth
    expected = Counter(
        (one.provider, one.session_id, one.model, one.agent, *one.tokens, int(name in truth.ambiguous))
        for name, one in truth.requests.items()
    )
    found = Counter((row[0], row[1], *row[3:]) for row in rows)
    assert found - expected == Counter()
    assert expected - found == Counter()
    assert turns == len(truth.turns)
