"""What a report says beside its sums is about what was asked, as far as that is known."""

from __future__ import annotations

from datetime import UTC

import msgspec
import pytest

from corral.model.usage import Unrecorded, UsageSkip
from corral.model.usage_report import UsageQuery
from corral.usage.ledger import Ledger
from corral.usage.report import name_untraced, report_usage
from corral.usage.rows import Reading
from tests.unit.usage.readings import MadeUpPricer, reading

NOON = 1_794_000_000.0


def gappy(session_id: str, provider: str, at: float, model: str) -> Reading:
    """One request, one call without tokens, one line that could not be counted."""
    one = reading(session_id, [(session_id, at, 1, model)])
    source = msgspec.structs.replace(one.source, provider=provider)
    trace = Unrecorded(key=f"u{session_id}", at=at, session_id=session_id, kind="compaction")
    skip = UsageSkip(path=source.path, offset=1, reason="torn")
    return one._replace(source=source, batch=msgspec.structs.replace(one.batch, unrecorded=[trace], skipped=[skip]))


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(str(tmp_path))
    home_file = gappy("whole", "qwen-code", NOON, "free")
    shared = msgspec.structs.replace(home_file.source, session_id="", scope="", work_dir=None, path="/h/month.jsonl")
    home_file = home_file._replace(source=shared)
    late = gappy("b1", "qwen-code", NOON + 900 * 8 + 7, "late")
    made.store([gappy("a1", "kimi-code", NOON, "early"), late, home_file], MadeUpPricer())
    yield made
    made.close()


@pytest.mark.parametrize(
    ("asked", "skipped", "unrecorded", "models"),
    [
        ({}, ["a1", "b1", "month"], 3, {"early", "late"}),
        ({"provider": "kimi-code"}, ["a1"], 1, {"early"}),
        ({"provider": "qwen-code"}, ["b1", "month"], 2, {"late"}),
        ({"project": "/src/a"}, ["a1", "month"], 1, {"early"}),
        ({"session": "b1"}, ["b1", "month"], 1, {"late"}),
        ({"session": "b1", "provider": "qwen-code"}, ["b1", "month"], 1, {"late"}),
        ({"since": NOON + 1}, ["a1", "b1", "month"], 1, {"late"}),
        ({"until": NOON + 900 * 8 + 7}, ["a1", "b1", "month"], 2, {"early"}),
        ({"until": NOON + 900 * 8 + 8}, ["a1", "b1", "month"], 3, {"early", "late"}),
        ({"model": "late"}, ["a1", "b1", "month"], 3, {"late"}),
        ({"session": "nobody"}, ["month"], 0, set()),
    ],
)
def test_what_is_named_is_about_what_was_asked(ledger, asked, skipped, unrecorded, models):
    report = report_usage(ledger, UsageQuery(zone=UTC, **asked))
    names = [one.path.removeprefix("/h/").partition("/")[0].removesuffix(".jsonl") for one in report.skipped]
    assert names == skipped
    assert sum(one.events or 0 for one in report.unrecorded) == unrecorded
    assert {one.model for one in report.prices} == models


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, []),
        ({"provider": "kimi-code"}, []),
        ({"session": "b1", "since": 1.0}, ["whatever its session and time:"]),
        ({"project": "/src/a"}, ["whatever its project:"]),
        ({"model": "late"}, ["whatever its model:", "whatever their model:"]),
    ],
)
def test_what_could_not_be_narrowed_is_said(ledger, asked, said):
    notes = report_usage(ledger, UsageQuery(zone=UTC, **asked)).notes
    assert len(notes) == len(said) and all(part in note for part, note in zip(said, notes, strict=True))


@pytest.mark.parametrize(
    ("asked", "providers"),
    [
        ({}, {"kimi-code", "qwen-code"}),
        ({"provider": "kimi-code"}, {"kimi-code"}),
        ({"project": "/src/b"}, {"qwen-code"}),
        ({"session": "a1", "since": 1.0}, {"kimi-code"}),
        ({"session": "nobody"}, set()),
    ],
)
def test_calls_without_a_trace_are_those_of_the_clis_in_question(ledger, asked, providers):
    query = UsageQuery(zone=UTC, **asked)
    named = name_untraced(ledger, query, report_usage(ledger, query)).unrecorded
    assert {one.provider for one in named if one.events is None} == providers
