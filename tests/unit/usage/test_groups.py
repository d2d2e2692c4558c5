"""Reports made from quarters: in every time zone and for every span what adding up the events one by one gives."""

from __future__ import annotations

import random
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from corral.model.usage_report import TIME_KEYS, UsageQuery
from corral.usage.groups import SUMMED, Labels, add_up
from corral.usage.ledger import Ledger
from tests.unit.usage.readings import MadeUpPricer, reading

# Offsets of quarters and halves of an hour, summer times of an hour and of half an hour, days that come late or early.
ZONES = [
    "UTC",
    "Asia/Kathmandu",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Pacific/Chatham",
    "Pacific/Apia",
]
MARCH, OCTOBER = 1_774_000_000, 1_792_900_000
"""Weeks of 2026 in which clocks change in Europe; those of the others lie within a month."""


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    chance = random.Random(5)
    made = Ledger(str(tmp_path_factory.mktemp("state")))
    for session_id in ("a1", "a2", "b1"):
        times = [chance.choice((MARCH, OCTOBER)) + chance.random() * 40 * 86_400 for _ in range(400)]
        events = [(f"{session_id}{n}", at, n % 300, chance.choice(("m", "n", None))) for n, at in enumerate(times)]
        made.store([reading(session_id, events)], MadeUpPricer())
    return made


def add_by_hand(ledger: Ledger, query: UsageQuery) -> dict[tuple[str | None, ...], list[int]]:
    labels = Labels(query.zone)
    found: dict[tuple[str | None, ...], list[int]] = {}
    rows = ledger.db.execute(
        "SELECT provider, session_id, work_dir, at, model, branch, 0, 1, input, cache_read, cache_write,"
        " cache_write_1h, output, reasoning, coalesce(dollars, 0), coalesce(picos, 0), dollars IS NULL, assumed"
        " FROM events JOIN sessions ON sessions.id = session JOIN homes ON homes.id = sessions.home"
        " UNION ALL SELECT provider, session_id, work_dir, at, NULL, NULL, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0"
        " FROM actions JOIN sessions ON sessions.id = session JOIN homes ON homes.id = sessions.home"
    ).fetchall()
    turns_count = query.model is None and not {"model", "branch"} & set(query.by)
    for provider, session_id, work_dir, at, model, branch, *sums in rows:
        if (query.since is not None and at < query.since) or (query.until is not None and at >= query.until):
            continue
        if query.project not in (None, work_dir) or query.model not in (None, model) or (sums[0] and not turns_count):
            continue
        named = {
            "provider": provider,
            "session": f"{provider}:{session_id}",
            "project": work_dir,
            "model": model,
            "branch": branch,
        }
        key = tuple(labels.find(name, at) if name in TIME_KEYS else named[name] for name in query.by)
        known = found.setdefault(key, [0] * len(SUMMED))
        found[key] = [one + other for one, other in zip(known, sums, strict=True)]
    return found


def normal(sums, turns_count: bool):
    """Dollars and picos together; turns only where they mean something."""
    return {
        key: (row[0] if turns_count else None, *row[1:8], row[8] * 10**12 + row[9], *row[10:])
        for key, row in sums.items()
    }


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "by",
    [
        (),
        ("day",),
        ("hour",),
        ("week",),
        ("month", "model"),
        ("day", "session"),
        ("project", "branch"),
        ("provider", "hour"),
    ],
)
def test_every_grouping_in_every_zone(ledger, zone, by):
    query = UsageQuery(zone=ZoneInfo(zone) if zone != "UTC" else UTC, by=by)
    turns_count = not {"model", "branch"} & set(by)
    assert normal(add_up(ledger, query), turns_count) == normal(add_by_hand(ledger, query), turns_count)


@pytest.mark.parametrize("seed", range(25))
def test_a_span_may_begin_and_end_anywhere(ledger, seed):
    chance = random.Random(seed)
    since = chance.choice((None, MARCH + chance.random() * 50 * 86_400, OCTOBER + 900.0 * chance.randint(0, 3_000)))
    length = chance.choice((0.5, 100, 899, 900, 1_000, 86_400, 10**7))
    until = None if chance.random() < 0.2 else (since or MARCH) + length * chance.random() * 2
    query = UsageQuery(
        zone=ZoneInfo(chance.choice(ZONES)),
        by=chance.choice(((), ("day",), ("hour",), ("session",))),
        since=since,
        until=until,
        project=chance.choice((None, "/src/a")),
    )
    assert normal(add_up(ledger, query), True) == normal(add_by_hand(ledger, query), True)


def test_a_filter_by_model_leaves_the_others_out(ledger):
    query = UsageQuery(zone=UTC, by=("day",), model="m", since=MARCH + 12_345.6)
    assert normal(add_up(ledger, query), False) == normal(add_by_hand(ledger, query), False)


@pytest.fixture(scope="module")
def ledger_of_ages(tmp_path_factory):
    """Some of its times lie thousands of years from the others."""
    chance = random.Random(6)
    made = Ledger(str(tmp_path_factory.mktemp("ages")))
    times = [chance.choice((5, MARCH, OCTOBER, 90_000_000_000)) + chance.random() * 40 * 86_400 for _ in range(300)]
    events = [(f"e{n}", at, n % 300, chance.choice(("m", None))) for n, at in enumerate(times)]
    made.store([reading("s", events)], MadeUpPricer())
    return made


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("by", TIME_KEYS)
def test_times_from_far_away_change_nothing_else(ledger_of_ages, zone, by):
    query = UsageQuery(zone=ZoneInfo(zone), by=(by,))
    assert normal(add_up(ledger_of_ages, query), True) == normal(add_by_hand(ledger_of_ages, query), True)


def test_times_from_far_away_cost_no_piece_for_each_day_between(ledger_of_ages):
    asked: list[str] = []
    ledger_of_ages.db.set_trace_callback(asked.append)
    add_up(ledger_of_ages, UsageQuery(zone=ZoneInfo("Europe/Berlin"), by=("day",)))
    ledger_of_ages.db.set_trace_callback(None)
    assert 4 * 30 < len(asked) < 4 * 40 * 4


@pytest.mark.parametrize("span", [(1e9, 1.1e9), (1.9e9, None), (None, 1e9), (1.1e9, 1e9)])
def test_a_span_in_which_nothing_lies_adds_up_to_nothing(ledger, span):
    assert add_up(ledger, UsageQuery(zone=UTC, by=("day",), since=span[0], until=span[1])) == {}


def test_an_empty_ledger_adds_up_to_nothing(tmp_path):
    assert add_up(Ledger(str(tmp_path)), UsageQuery(zone=UTC)) == {}
