"""Facts about what Qwen Code's sessions cost: real files, the rules of counting, copies."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from corral.model.key import Home
from corral.model.usage import TokenUsage
from corral.providers.qwen_code import usage as reading
from corral.providers.qwen_code.usage import list_usage_sources
from tests.providers.qwen_usage_support import (
    CANARY,
    CANCELLED,
    FORK,
    FORKED,
    GONE,
    KILLED_IN_TOOL,
    SCOPE,
    SESSION,
    WITH_AGENT,
    WITH_TOOL,
    home_at,
    line,
    month_line,
    prompt,
    read_all,
    read_usage,
    record,
    recorded_home,
    response,
    tool_call,
    total,
    write,
    write_month,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return recorded_home(tmp_path)


class TestRealFiles:
    def test_sources(self, home: Home) -> None:
        sources = {source.session_id: source for source in list_usage_sources(home)}
        assert set(sources) == {"", FORKED, FORK, CANCELLED, KILLED_IN_TOOL, WITH_TOOL, WITH_AGENT}
        assert sources[FORK].parent_id == FORKED
        assert sources[FORKED].parent_id is None
        assert {sources[FORK].work_dir, sources[FORKED].work_dir} == {"/home/dev/projects/app"}
        assert sources[FORKED].scope == SCOPE

    def test_tokens_equal_the_telemetry(self, home: Home) -> None:
        batch = read_all(home)[f"{FORKED}.jsonl"]
        raw = [json.loads(text) for text in Path(batch_path(home, FORKED)).read_text().splitlines()]
        spoken = [each["systemPayload"]["uiEvent"] for each in raw if each.get("subtype") == "ui_telemetry"]
        assert len(batch.events) == len(spoken) == 14
        tokens = total(batch.events)
        assert tokens.input + tokens.cache_read == sum(each["input_token_count"] for each in spoken)
        assert tokens.cache_read == sum(each["cached_content_token_count"] for each in spoken)
        assert tokens.output + tokens.reasoning == sum(each["output_token_count"] for each in spoken)
        assert tokens.reasoning == sum(each["thoughts_token_count"] for each in spoken) == 70
        assert tokens.total == sum(each["total_token_count"] for each in spoken)
        assert {event.model for event in batch.events} == {"fake-model"}
        assert sum(event.agent is not None for event in batch.events) == 7
        assert not batch.skipped

    def test_a_fork_adds_only_what_it_said_itself(self, home: Home) -> None:
        batches = read_all(home)
        original, fork = batches[f"{FORKED}.jsonl"], batches[f"{FORK}.jsonl"]
        known = {event.key for event in original.events}
        own = [event for event in fork.events if event.key not in known]
        assert len(fork.events) == 16
        assert len(own) == 4
        assert {event.session_id for event in own} == {FORK}
        copies = [event for event in fork.events if event.key in known]
        assert {event.session_id for event in copies} == {FORKED}
        assert total(original.events + fork.events) == total(original.events) + total(own)
        assert len({action.key for action in original.actions + fork.actions}) == 8 + 2

    def test_sub_agents_are_in_the_telemetry_of_their_session(self, home: Home) -> None:
        batch = read_all(home)[f"{WITH_AGENT}.jsonl"]
        tokens = total(batch.events)
        assert len(batch.events) == 10
        assert tokens.input + tokens.cache_read == 10087
        assert sum(event.agent is not None for event in batch.events) == 3
        assert [action.name for action in batch.actions if action.kind == "tool"] == ["run_shell_command env", "agent"]
        assert sum(action.kind == "turn" for action in batch.actions) == 4
        assert not batch.unrecorded

    def test_turns_tools_and_traces(self, home: Home) -> None:
        batches = read_all(home)
        cancelled, tool = batches[f"{CANCELLED}.jsonl"], batches[f"{WITH_TOOL}.jsonl"]
        assert [action.kind for action in cancelled.actions] == ["turn"] * 3
        assert [trace.kind for trace in cancelled.unrecorded] == [reading.ABORTED]
        assert [(action.kind, action.name) for action in tool.actions] == [
            ("turn", ""),
            ("tool", "run_shell_command env"),
        ]
        assert not tool.unrecorded

    def test_the_monthly_file_counts_for_sessions_without_transcript(self, home: Home) -> None:
        batch = read_all(home)["token-usage-2026-11.jsonl"]
        assert len(batch.events) == 4
        assert total(batch.events) == TokenUsage(input=1600, cache_read=3754, output=1414, reasoning=20)
        assert [event.agent for event in batch.events] == [None, "managed-auto-memory-extractor"] * 2
        assert {event.session_id for event in batch.events} == {GONE, "fb48bc26-778a-46ba-8d2f-b731e7afa4fa"}

    def test_nothing_that_was_said_is_kept(self, home: Home) -> None:
        kept = repr(read_all(home))
        for text in ("BANANA", "second msg", "ANSWER", "grep", "/home/dev"):
            assert text not in kept.replace(home.path, "")


def batch_path(home: Home, session_id: str) -> str:
    return next(source.path for source in list_usage_sources(home) if source.session_id == session_id)


class TestRules:
    def test_tokens_are_disjoint(self, tmp_path: Path) -> None:
        batch = read_usage(write(tmp_path, line(response(gitBranch="x") | {"gitBranch": "main"})), 0)
        (event,) = batch.events
        assert event.tokens == TokenUsage(input=400, cache_read=600, output=30, reasoning=20)
        assert event.branch == "main"
        assert event.at == 1794770673.38

    @pytest.mark.parametrize(
        ("changes", "tokens", "notes"),
        [
            ({"cached_content_token_count": 1200}, TokenUsage(cache_read=1000, output=30, reasoning=20), 1),
            ({"thoughts_token_count": 90}, TokenUsage(input=400, cache_read=600, reasoning=50), 1),
            ({"input_token_count": 0}, TokenUsage(cache_read=600, output=30, reasoning=20), 0),
            ({"total_token_count": 1070}, TokenUsage(input=400, cache_read=600, output=50, reasoning=20), 0),
            ({"cached_content_token_count": None}, TokenUsage(input=1000, output=30, reasoning=20), 0),
        ],
    )
    def test_contradicting_counts(self, tmp_path: Path, changes: Any, tokens: TokenUsage, notes: int) -> None:
        batch = read_usage(write(tmp_path, line(response(**changes))), 0)
        assert [event.tokens for event in batch.events] == [tokens]
        assert len(batch.skipped) == notes

    def test_a_server_that_repeats_its_ids(self, tmp_path: Path) -> None:
        later: dict[str, Any] = {"event.timestamp": "2026-11-15T19:24:34.000Z"}
        batch = read_usage(write(tmp_path, line(response()), line(response(**later))), 0)
        assert len({event.key for event in batch.events}) == 2

    def test_without_an_id_the_record_is_the_event(self, tmp_path: Path) -> None:
        batch = read_usage(write(tmp_path, line(response(1, response_id="")), line(response(2, response_id=""))), 0)
        assert [event.key for event in batch.events] == ["u1", "u2"]

    def test_no_token_counts_is_one_trace(self, tmp_path: Path) -> None:
        zero: dict[str, Any] = dict.fromkeys(("input_token_count", "output_token_count"), 0)
        zero |= dict.fromkeys(("cached_content_token_count", "thoughts_token_count", "total_token_count"), 0)
        answer = record("assistant", "a", message={"role": "model", "parts": [{"text": "x"}]}) | {"parentUuid": "u1"}
        batch = read_usage(write(tmp_path, line(response(1, **zero)), line(answer)), 0)
        assert not batch.events
        assert {trace.key for trace in batch.unrecorded} == {"u1"}

    def test_a_compaction_is_a_response_like_any(self, tmp_path: Path) -> None:
        compaction = record("system", "c", subtype="chat_compression", systemPayload={"compressedHistory": [CANARY]})
        batch = read_usage(write(tmp_path, line(response()), line(compaction)), 0)
        assert (len(batch.events), len(batch.unrecorded), len(batch.actions)) == (1, 0, 0)
        assert CANARY not in repr(batch)

    def test_what_is_a_turn(self, tmp_path: Path) -> None:
        result = record("tool_result", "r", message={"role": "user", "parts": [{"functionResponse": {}}]})
        lines = [
            prompt("p", "do it"),
            prompt("steer", "no, that", subtype="mid_turn_user_message"),
            prompt("slash", "/help me"),
            prompt("path", "/etc/hosts is odd"),
            prompt("note", "done", subtype="notification"),
            prompt("empty", " "),
            result,
        ]
        batch = read_usage(write(tmp_path, *map(line, lines)), 0)
        assert [action.key for action in batch.actions] == ["p", "steer", "path"]

    @pytest.mark.parametrize(
        ("name", "args", "expected"),
        [
            ("run_shell_command", {"command": f"TOKEN={CANARY} /usr/bin/git push {CANARY}"}, "run_shell_command git"),
            ("run_shell_command", {"command": f"'{CANARY}'"}, "run_shell_command"),
            ("run_shell_command", {"command": "A=1"}, "run_shell_command"),
            ("run_shell_command", {"command": ["ls"]}, "run_shell_command"),
            ("run_shell_command", CANARY, "run_shell_command"),
            ("read_file", {"command": "ls"}, "read_file"),
        ],
    )
    def test_tools(self, tmp_path: Path, name: str, args: object, expected: str) -> None:
        batch = read_usage(write(tmp_path, line(tool_call("t", name, args))), 0)
        assert [(action.kind, action.name) for action in batch.actions] == [("tool", expected)]
        assert CANARY not in repr(batch)

    def test_archived_transcripts_count(self, tmp_path: Path) -> None:
        source = write(tmp_path, line(response()))
        archive = Path(source.path).parent / "archive"
        archive.mkdir()
        os.rename(source.path, archive / f"{SESSION}.jsonl")
        (archived,) = list_usage_sources(home_at(tmp_path))
        assert len(read_usage(archived, 0).events) == 1

    def test_the_monthly_file_never_repeats_a_transcript(self, tmp_path: Path) -> None:
        write(tmp_path, line(response()))
        remember = month_line(3, SESSION, source="managed-auto-memory-remember")
        source = write_month(tmp_path, month_line(1, SESSION), month_line(2, GONE), remember)
        assert [event.key for event in read_usage(source, 0).events] == ["token-usage:id-2", "token-usage:id-3"]

    def test_copies_in_a_fork_stand_for_a_session_that_is_gone(self, tmp_path: Path) -> None:
        first = record("system", "s", subtype="session_source", cwd="/x")
        write(tmp_path, line(first), line(response() | {"forkedFrom": {"sessionId": GONE, "messageUuid": "u1"}}))
        batch = read_usage(write_month(tmp_path, month_line(1, GONE)), 0)
        assert not batch.events
        assert len(batch.skipped) == 1
