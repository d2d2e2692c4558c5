"""What Claude Code spent, as its transcripts say: each request once, whoever copied it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.claude_code import PROVIDER as claude_code
from corral.providers.kit.usage_files import read_source
from tests.providers.claude_support import (
    BRANCH,
    CLEARED,
    DELEGATED,
    FORK,
    NEW_ID,
    NORMAL,
    PRINTED,
    SCOPE,
    SHARED,
    Place,
    line,
)

USAGE = {"input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 0, "output_tokens": 5}
TEXT = [{"type": "text", "text": "x"}]


def read(source: UsageSource, since: int = 0) -> UsageBatch:
    return read_source(claude_code.usage.read, source, since)


def sources(place: Place) -> dict[str, UsageSource]:
    return {Path(source.path).stem: source for source in claude_code.usage.list_sources(place.home, None)}


def answer(usage: dict[str, Any] | None = None, message_id: str = "msg_1", content: Any = TEXT, **fields: Any) -> bytes:
    message = {"id": message_id, "model": "claude-opus-5-5", "stop_reason": "end_turn", "usage": usage or USAGE}
    return line("assistant", content, message=message | fields.pop("message", {}), **({"requestId": "req_1"} | fields))


def read_lines(place: Place, *lines: bytes) -> UsageBatch:
    place.transcript(NEW_ID).write_bytes(b"".join(lines))
    return read(sources(place)[NEW_ID])


def test_every_transcript_and_those_of_sub_agents_are_sources(claude: Place) -> None:
    found = sources(claude)
    assert {NORMAL, SHARED, CLEARED, BRANCH, PRINTED, FORK, DELEGATED, "agent-a02a01f6c7c37e865"} < set(found)
    agent = found["agent-a02a01f6c7c37e865"]
    assert (agent.session_id, agent.agent, agent.scope) == (DELEGATED, "a02a01f6c7c37e865", SCOPE)
    assert (found[NORMAL].work_dir, found[NORMAL].parent_id, found[NORMAL].agent) == (
        "/home/dev/projects/app", None, None,
    )  # fmt: skip
    assert found[BRANCH].parent_id == CLEARED


def test_a_sub_agent_of_an_older_version_belongs_to_the_session_that_its_lines_name(claude: Place) -> None:
    (claude.project / "agent-0a1b.jsonl").write_bytes(answer(isSidechain=True, sessionId=NORMAL, agentId="0a1b"))
    (claude.project / "agent-ffff.jsonl").write_bytes(b"nothing\n")
    source = sources(claude)["agent-0a1b"]
    assert (source.session_id, source.agent) == (NORMAL, "0a1b")
    assert "agent-ffff" not in sources(claude)
    assert read(source).events[0].agent == "0a1b"


def test_the_recorded_home_adds_up(claude: Place) -> None:
    """The model that recorded it billed 100 + n input tokens and 40 + n output tokens for its n-th answer."""
    events = {event.key: event for source in sources(claude).values() for event in read(source).events}
    spent = Counter(event.tokens.input for event in events.values())
    numbers = {3, 4, 5, 20, 28, 33, 6, 21, 22, 29, 30, 23, 26, 27, 2, 31, 92, 93, 84, 85, 202, 203, 204}
    assert spent == Counter(100 + number for number in numbers)
    stopped = 93  # by Escape: one token of its answer is all that was written down
    output = sum(event.tokens.output + event.tokens.reasoning for event in events.values())
    assert output == sum(40 + number for number in numbers - {stopped}) + 1
    assert {event.model for event in events.values()} == {"claude-opus-5-5"}


def test_a_sub_agent_is_counted_apart_and_once(claude: Place) -> None:
    found = sources(claude)
    own, agents = read(found[DELEGATED]).events, read(found["agent-a02a01f6c7c37e865"]).events
    assert [event.agent for event in own] == [None] * len(own)
    assert {(event.agent, event.session_id) for event in agents} == {("a02a01f6c7c37e865", DELEGATED)}
    assert not {event.key for event in own} & {event.key for event in agents}


def test_what_a_fork_copied_stays_with_its_source_where_it_is_named(claude: Place) -> None:
    owners = {event.key: event.session_id for event in read(sources(claude)[BRANCH]).events}
    assert Counter(owners.values()) == {CLEARED: 2, BRANCH: 1}
    copied = {event.key for event in read(sources(claude)[FORK]).events}
    assert len(copied & {event.key for event in read(sources(claude)[PRINTED]).events}) == 2


def test_the_blocks_of_one_answer_are_one_request(claude: Place) -> None:
    batch = read_lines(claude, answer(), answer(apiBlockIndex=1), answer(apiBlockIndex=2))
    assert [event.tokens for event in batch.events] == [TokenUsage(10, 20, 0, 0, 5, 0)]


def test_a_count_that_grows_is_given_as_it_grows(claude: Place) -> None:
    """The ledger takes the larger one."""
    batch = read_lines(claude, answer(USAGE | {"output_tokens": 1}), answer())
    assert len({event.key for event in batch.events}) == 1
    assert max(event.tokens.output for event in batch.events) == 5


@pytest.mark.parametrize(
    ("first", "second", "requests"),
    [
        ({}, {"requestId": "req_2", "isSidechain": True}, 1),  # a side question repeats its conversation
        ({"requestId": None}, {"requestId": None}, 1),
        ({}, {"message_id": "msg_2"}, 2),
        ({"message_id": "1"}, {"message_id": "1", "requestId": "req_2"}, 2),  # a gateway that counts from one
        ({"message_id": "1", "requestId": None}, {"message_id": "1", "requestId": None}, 1),
    ],
)
def test_which_lines_are_the_same_request(
    claude: Place, first: dict[str, Any], second: dict[str, Any], requests: int
) -> None:
    batch = read_lines(claude, answer(**first), answer(**second))
    assert len({event.key for event in batch.events}) == requests


@pytest.mark.parametrize(
    ("written", "counted", "told"),
    [
        ({"cache_creation_input_tokens": 7}, (7, 0), False),
        ({"cache_creation_input_tokens": 7, "cache_creation": {"ephemeral_1h_input_tokens": 7}}, (0, 7), False),
        (
            {
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            },
            (3, 4),
            False,
        ),
        ({"cache_creation_input_tokens": 7, "cache_creation": {"ephemeral_1h_input_tokens": 4}}, (3, 4), True),
        ({"cache_creation_input_tokens": 2, "cache_creation": {"ephemeral_1h_input_tokens": 4}}, (0, 2), True),
        (
            {"cache_creation_input_tokens": None, "cache_creation": {"ephemeral_1h_input_tokens": 4}},
            (0, 4),
            False,
        ),
        ({"cache_creation_input_tokens": 7, "cache_creation": None}, (7, 0), False),
    ],
)
def test_writes_to_the_cache_for_an_hour_are_told_apart(
    claude: Place, written: dict[str, Any], counted: tuple[int, int], told: bool
) -> None:
    batch = read_lines(claude, answer(USAGE | written))
    (event,) = batch.events
    assert (event.tokens.cache_write, event.tokens.cache_write_1h) == counted
    assert bool(batch.skipped) == told


def test_thinking_is_a_part_of_the_output(claude: Place) -> None:
    (event,) = read_lines(claude, answer(USAGE | {"output_tokens_details": {"thinking_tokens": 2}})).events
    assert (event.tokens.output, event.tokens.reasoning) == (3, 2)
    (event,) = read_lines(claude, answer(USAGE | {"output_tokens_details": {"thinking_tokens": 9}})).events
    assert (event.tokens.output, event.tokens.reasoning) == (0, 5)


def test_what_claude_says_itself_is_no_request(claude: Place) -> None:
    batch = read_lines(claude, answer(message={"model": "<synthetic>"}, isApiErrorMessage=True))
    assert (batch.events, batch.skipped) == ([], [])


def test_an_answer_that_was_interrupted_leaves_a_trace(claude: Place) -> None:
    stopped = line("user", [{"type": "text", "text": "[Request interrupted by user]"}], interruptedMessageId="msg_1")
    partial = answer(USAGE | {"output_tokens": 1}, message={"stop_reason": None})
    batch = read_lines(claude, line(), partial, stopped.replace(b": ", b":"))
    assert ([event.tokens.output for event in batch.events], len(batch.unrecorded)) == ([1], 1)
    in_tool = stopped.replace(b"by user]", b"by user for tool use]")
    assert read_lines(claude, line(), answer(), in_tool).unrecorded == []


def test_prompts_and_calls_are_counted_and_nothing_of_them_is_kept(claude: Place) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "/usr/bin/make CANARY"}}
    other = {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"command": 5}}
    result = line("user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "CANARY"}])
    meta = line("user", "CANARY", isMeta=True)
    batch = read_lines(claude, line("user", "CANARY"), answer(content=[call, other]), result, meta)
    assert [(action.kind, action.name) for action in batch.actions] == [
        ("turn", ""), ("tool", "Bash make"), ("tool", "Read"),
    ]  # fmt: skip
    assert "CANARY" not in repr(batch)


@pytest.mark.parametrize(
    "bad", [{"output_tokens": -1}, {"input_tokens": 2**60}, {"output_tokens": "5"}, {"input_tokens": True}]
)
def test_a_count_that_is_none_is_told(claude: Place, bad: dict[str, Any]) -> None:
    batch = read_lines(claude, answer(USAGE | bad), answer(message_id="msg_2"))
    assert ([event.key for event in batch.events], len(batch.skipped)) == (["msg_2"], 1)


@pytest.mark.parametrize("damage", [b"\0\xff no record\n", b'{"parentUuid":null,"type":"assistant","mess\n', b"[1]\n"])
def test_a_damaged_line_is_told_and_costs_nothing_else(claude: Place, damage: bytes) -> None:
    batch = read_lines(claude, answer(), damage, answer(message_id="msg_2"))
    assert len(batch.events) == 2
    assert [skip.offset for skip in batch.skipped] == [len(answer())]


def test_two_records_on_one_line_are_both_read(claude: Place) -> None:
    glued = answer().replace(b": ", b":")[:-1] + answer(message_id="msg_2").replace(b": ", b":")
    torn = answer(message_id="msg_3").replace(b": ", b":")[:-90] + answer(message_id="msg_4").replace(b": ", b":")
    batch = read_lines(claude, glued, torn)
    assert [event.key for event in batch.events] == ["msg_1", "msg_2", "msg_4"]
    assert len(batch.skipped) == 1


def test_copies_of_requests_are_passed_over(claude: Place) -> None:
    nested = {"role": "assistant", "content": [{"type": "text", "text": '"type":"assistant"'}], "usage": USAGE}
    blob = json.dumps({"type": "api-request-blob", "sessionId": NEW_ID, "message": nested}).encode() + b"\n"
    batch = read_lines(claude, blob, answer(), blob)
    assert (len(batch.events), batch.skipped) == (1, [])


def test_a_last_line_without_its_end_waits(claude: Place) -> None:
    half = len(answer(message_id="msg_2")) // 2
    batch = read_lines(claude, answer(), answer(message_id="msg_2")[:half])
    assert (len(batch.events), batch.next_offset) == (1, len(answer()))
    with open(claude.transcript(NEW_ID), "ab") as file:
        file.write(answer(message_id="msg_2")[half:])
    batch = read(sources(claude)[NEW_ID], batch.next_offset)
    assert [event.key for event in batch.events] == ["msg_2"]


def test_a_home_without_projects_has_no_sources(claude: Place) -> None:
    shutil.rmtree(claude.root / "projects")
    assert sources(claude) == {}
