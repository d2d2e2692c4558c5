"""What Codex's rollouts say was spent: by records, by running totals, by forks and sub-agents."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from corral.model.usage import TokenUsage, UsageBatch, UsageEvent
from corral.providers.codex import PROVIDER as codex
from corral.providers.codex.usage import INTERRUPTED, KILLED
from corral.providers.kit.usage_files import read_source
from tests.providers.codex_support import (
    ABORTED,
    AGENT,
    COMPACTED,
    DAEMON_KILLED,
    FORK,
    NEW_ID,
    PARENT,
    TERMINATED,
    WITH_AGENT,
    Place,
    asked,
    call,
    event,
    line,
    meta,
)

OTHER_ID = "01a1e0ff-0000-7000-8000-00000000000b"
LATER = "2026-11-15T21:00:00.000Z"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def read(place: Place, thread_id: str, since: int = 0) -> UsageBatch:
    (source,) = [one for one in codex.usage.list_sources(place.home, None) if one.session_id == thread_id]
    return read_source(codex.usage.read, source, since)


def write(place: Place, *lines: bytes, thread_id: str = NEW_ID) -> UsageBatch:
    place.rollout(thread_id).write_bytes(b"".join(lines))
    return read(place, thread_id)


def counts(given: int, cached: int = 0, made: int = 0, reasoning: int = 0) -> dict[str, int]:
    return {
        "input_tokens": given,
        "cached_input_tokens": cached,
        "cache_write_input_tokens": 0,
        "output_tokens": made,
        "reasoning_output_tokens": reasoning,
        "total_tokens": given + made,
    }


def record(number: int, thread_id: str = NEW_ID, **more: Any) -> bytes:
    """A response that cost `number` tokens of input and one of output."""
    fields: dict[str, Any] = {"thread_id": thread_id, "response_id": f"resp_{number}", "usage": counts(number, made=1)}
    return line("token_usage_record", **(fields | more))


def total(number: int, made: int = 0, at: str = LATER) -> bytes:
    info = {"total_token_usage": counts(number, made=made), "last_token_usage": counts(7)}
    return line("event_msg", at, type="token_count", info=info)


def tokens(batch: UsageBatch) -> list[tuple[int, int]]:
    return [(one.tokens.input, one.tokens.output) for one in batch.events]


def summed(*batches: UsageBatch) -> TokenUsage:
    once: dict[str, UsageEvent] = {one.key: one for batch in batches for one in batch.events}
    return sum((one.tokens for one in once.values()), TokenUsage())


@pytest.mark.parametrize(
    ("thread_id", "requests", "spent"),
    [
        # What the fake model billed; a compaction is among those of the third.
        (DAEMON_KILLED, 6, 31056),
        (PARENT, 1, 5138),
        (COMPACTED, 10, 51598),
        (FORK, 2, 5142 + 5294),
        (WITH_AGENT, 2, 11302),
        (AGENT, 1, 5654),
        (ABORTED, 0, 0),
        (TERMINATED, 0, 0),
    ],
)
def test_recorded_threads_cost_what_was_billed(place: Place, thread_id: str, requests: int, spent: int) -> None:
    batch = read(place, thread_id)
    assert (len(batch.events), summed(batch).total) == (requests, spent)
    assert batch.skipped == [] and {one.session_id for one in batch.events} <= {thread_id}
    assert {one.model for one in batch.events} <= {"gpt-5.4"}


def test_kinds_of_tokens_do_not_overlap(place: Place) -> None:
    (spent,) = read(place, PARENT).events
    assert spent.tokens == TokenUsage(input=2000, cache_read=3044, output=87, reasoning=7)
    written = counts(100, 30, 10) | {"cache_write_input_tokens": 20}
    (spent,) = write(place, meta(), record(1, usage=written)).events
    assert spent.tokens == TokenUsage(input=50, cache_read=30, cache_write=20, output=10)


def test_what_a_sub_agent_spent_is_its_own_and_says_so(place: Place) -> None:
    assert {one.agent for one in read(place, AGENT).events} == {"Galileo"}
    assert {one.agent for one in read(place, WITH_AGENT).events} == {None}


def test_turns_and_tools_are_counted_without_their_text(place: Place) -> None:
    batch = read(place, DAEMON_KILLED)
    assert [one.kind for one in batch.actions].count("turn") == 5
    assert [one.name for one in batch.actions if one.kind == "tool"] == ["exec_command env"] * 2
    batch = write(place, meta(), asked("a secret"), call("one", "FOO=1 /usr/bin/git push"))
    assert [(one.kind, one.name) for one in batch.actions] == [("turn", ""), ("tool", "exec_command git")]
    assert "secret" not in str([one.name for one in batch.actions])


def test_running_totals_say_nothing_beside_records(place: Place) -> None:
    batch = write(place, meta(), record(10), total(10, 1), total(10, 1), record(20), total(30, 2), total(5))
    assert tokens(batch) == [(10, 1), (20, 1)]


# --- older rollouts, which have totals only


def test_a_request_is_the_difference_of_two_totals(place: Place) -> None:
    batch = write(place, meta(), total(100, 10), total(100, 10), total(250, 15), event("token_count", info=None))
    assert tokens(batch) == [(100, 10), (150, 5)]


def test_a_total_that_is_smaller_began_again(place: Place) -> None:
    assert tokens(write(place, meta(), total(100, 10), total(30, 3), total(40, 4))) == [(100, 10), (30, 3), (10, 1)]


def test_a_rollout_that_a_newer_version_continued(place: Place) -> None:
    batch = write(place, meta(), total(100, 10), record(20), total(120, 11), record(30), total(150, 12))
    assert tokens(batch) == [(100, 10), (20, 1), (30, 1)]


def test_copies_of_an_older_fork_are_the_same_requests(place: Place) -> None:
    lines = (total(100, 10), total(250, 15))
    first = write(place, meta(), *lines)
    fork = write(
        place, meta(OTHER_ID, forked_from_id=NEW_ID), meta(), *lines, total(300, 16, at=LATER), thread_id=OTHER_ID
    )
    assert summed(first, fork) == TokenUsage(input=300, output=16)


def test_equal_totals_of_strangers_stay_apart(place: Place) -> None:
    first = write(place, meta(), total(100, 10))
    other = write(place, meta(OTHER_ID), total(100, 10), thread_id=OTHER_ID)
    assert summed(first, other) == TokenUsage(input=200, output=20)


def test_copied_records_stay_with_the_thread_that_they_name(place: Place) -> None:
    batch = write(
        place, meta(OTHER_ID, forked_from_id=NEW_ID), meta(), record(5), record(6, OTHER_ID), thread_id=OTHER_ID
    )
    assert [one.session_id for one in batch.events] == [NEW_ID, OTHER_ID]
    assert summed(batch, write(place, meta(), record(5))).input == 11


def test_ids_that_a_backend_repeats_in_another_thread_are_other_requests(place: Place) -> None:
    first = write(place, meta(), record(5))
    other = write(place, meta(OTHER_ID), record(5, OTHER_ID), thread_id=OTHER_ID)
    assert summed(first, other).input == 10


def test_the_totals_of_a_fork_by_reference_go_on_from_its_parents(place: Place) -> None:
    forked = meta(forked_from_id=PARENT, history_base={"thread_id": PARENT})
    batch = write(place, forked, total(130, 12), total(140, 13))
    assert tokens(batch) == [(10, 1)] and batch.unrecorded == []
    assert tokens(write(place, forked, record(7), total(130, 12))) == [(7, 1)]


# --- what left no tokens


def test_a_turn_that_ended_before_its_first_response_leaves_a_trace(place: Place) -> None:
    begun, aborted = event("task_started", turn_id="one"), event("turn_aborted", turn_id="one")
    again = event("task_started", turn_id="two")
    done = event("task_complete", turn_id="one")
    expected = {
        (begun, aborted): [INTERRUPTED],
        (begun, again): [KILLED],
        (begun,): [],
        (begun, record(1), aborted): [],
        (begun, record(1), again): [],
        (begun, done, again): [],
    }
    for lines, kinds in expected.items():
        assert [one.kind for one in write(place, meta(), *lines).unrecorded] == kinds


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (b"garbage\n", "not a record: no JSON object that can be read"),
        (b'{"type":"token_usage_record","payload":{"usage":1}}\n', "a record without a time"),
        (line("token_usage_record", usage={}), "not a record that can be read"),
        (record(1, usage=counts(-5)), "a token count that no request can have"),
        (record(1, usage=counts(5, cached=6)), "a token count that no request can have"),
    ],
)
def test_what_can_not_be_counted_is_told(place: Place, damaged: bytes, reason: str) -> None:
    batch = write(place, meta(), damaged, record(3))
    assert [one.reason for one in batch.skipped] == [reason] and tokens(batch) == [(3, 1)]


# --- any way of reading gives the same


@pytest.mark.parametrize("thread_id", [DAEMON_KILLED, COMPACTED, FORK, AGENT, NEW_ID])
def test_read_as_it_grew_it_says_the_same(place: Place, thread_id: str) -> None:
    if thread_id == NEW_ID:
        write(place, meta(), total(10), event("task_started", turn_id="x"), total(30), record(5), total(35), record(6))
    path = place.rollout(thread_id)
    whole, content = read(place, thread_id), path.read_bytes()
    chance = random.Random(11)
    parts: list[UsageBatch] = []
    size = since = 0
    while size < len(content):
        size = min(len(content), size + chance.randrange(1, 2000))
        path.write_bytes(content[:size])
        parts.append(read(place, thread_id, since))
        since = parts[-1].next_offset
    assert [one for part in parts for one in part.events] == whole.events
    assert [one for part in parts for one in part.actions] == whole.actions
    assert [one for part in parts for one in part.unrecorded] == whole.unrecorded
    assert since == whole.next_offset == len(content)
