"""What kimi-cli spent: each request once, wherever its line was copied to, and nothing that was not spent."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from corral.model.key import Home
from corral.model.usage import TokenUsage, UsageBatch
from corral.providers.kimi_cli import PROVIDER
from corral.providers.kimi_cli.usage import list_usage_sources
from tests.providers.kimi_cli_usage_support import (
    AGENT,
    AT,
    BUCKET,
    WORK_DIR,
    mirrored,
    read,
    read_usage,
    record,
    shell,
    source,
    spent,
    write,
)
from tests.providers.kimi_support import FIXTURES
from tests.providers.kimi_usage_support import billed, total


class TestTokens:
    def test_every_kind_goes_to_its_own(self, tmp_path: Path) -> None:
        (event,) = read(tmp_path, spent()).events
        assert event.tokens == TokenUsage(input=10, output=2, cache_read=30, cache_write=4)
        assert (event.at, event.session_id, event.agent, event.model) == (AT, "s", None, None)

    def test_milliseconds_are_seconds(self, tmp_path: Path) -> None:
        (event,) = read(tmp_path, spent(at=AT * 1000)).events
        assert event.at == AT

    def test_compact_json_and_another_order_of_keys(self, tmp_path: Path) -> None:
        compact = json.dumps(json.loads(spent()), separators=(",", ":")).encode() + b"\n"
        turned = json.loads(spent(at=AT + 1))
        turned = {"message": {"payload": turned["message"]["payload"], "type": "StatusUpdate"}, "timestamp": AT + 1}
        assert len(read(tmp_path, compact, json.dumps(turned).encode() + b"\n").events) == 2


class TestCopies:
    def test_k1_a_fork_or_undo_copies_lines_that_are_billed_once(self, tmp_path: Path) -> None:
        old = spent(AT), spent(AT + 1, None)
        first = read_usage(source(write(tmp_path / "a", *old), session="a"), 0)
        fork = read_usage(source(write(tmp_path / "b", *old, spent(AT + 9, "chatcmpl-9")), session="b"), 0)
        assert total(first, fork).input == 30
        assert set(billed(first)) < set(billed(fork))

    def test_k1_turns_and_tools_of_a_fork_have_the_same_keys(self, tmp_path: Path) -> None:
        old = record("TurnBegin", user_input="x"), shell("ls"), record("SteerInput", AT + 1, user_input="y")
        first = read_usage(source(write(tmp_path / "a", *old)), 0)
        fork = read_usage(source(write(tmp_path / "b", *old)), 0)
        assert {action.key for action in first.actions} == {action.key for action in fork.actions}
        assert len({action.key for action in first.actions}) == 3

    @pytest.mark.parametrize("message_id", ["chatcmpl-1", None])
    def test_k2_a_fork_of_a_session_with_subagents(self, tmp_path: Path, message_id: str | None) -> None:
        own = spent(AT, message_id), spent(AT + 1, message_id, (7, 7, 7, 7)), shell("ls", AT + 2)
        mirrors = [mirrored(line, AT + n + 0.003) for n, line in enumerate(own)]
        batches = (
            read_usage(source(write(tmp_path / "subagents" / AGENT / "wire.jsonl", *own), AGENT), 0),
            read_usage(source(write(tmp_path / "wire.jsonl", *mirrors)), 0),
            read_usage(source(write(tmp_path / "fork" / "wire.jsonl", *mirrors), session="fork"), 0),
        )
        assert total(*batches).input == 17
        assert total(batches[2]).input == 17, "the mirrors alone are enough"
        assert len({action.key for batch in batches for action in batch.actions}) == 1
        assert {event.agent for event in billed(*batches).values()} == {AGENT}

    @pytest.mark.parametrize(
        ("second", "events"),
        [
            (spent(AT), 1),
            (spent(AT + 1), 2),
            (spent(AT, tokens=(11, 2, 30, 4)), 2),
            (spent(AT, "chatcmpl-2"), 2),
        ],
    )
    def test_k3_a_repeated_message_id(self, tmp_path: Path, second: bytes, events: int) -> None:
        assert len(billed(read(tmp_path, spent(AT), second))) == events

    def test_k3_a_subagents_repeated_message_id_with_another_usage(self, tmp_path: Path) -> None:
        assert len(billed(read(tmp_path, spent(), spent(AT + 1, tokens=(1, 1, 1, 1)), agent=AGENT))) == 2

    @pytest.mark.parametrize("names", [{"task_tool_call_id": "call_9"}, {"parent_tool_call_id": "call_9"}])
    def test_k4_a_legacy_mirror_is_the_only_record(self, tmp_path: Path, names: dict[str, str]) -> None:
        lines = (mirrored(spent(AT), AT + n, None, **names) for n in (0, 1))
        batch = read(tmp_path, spent(AT - 1, "chatcmpl-0", (100, 0, 0, 0)), *lines)
        assert total(batch).input == 120
        assert [event.agent for event in batch.events] == [None, "call_9", "call_9"]
        assert {event.session_id for event in batch.events} == {"s"}

    def test_k4_a_mirror_within_a_mirror_is_the_inner_agents(self, tmp_path: Path) -> None:
        inner = mirrored(spent(), AT + 1, "inner")
        own = read_usage(source(write(tmp_path / "i", spent()), "inner"), 0)
        outer = read_usage(source(write(tmp_path / "o", inner), "outer"), 0)
        parent = read_usage(source(write(tmp_path / "p", mirrored(inner, AT + 2, "outer"))), 0)
        assert len(billed(own, outer, parent)) == 1

    def test_k5_without_an_id_time_and_usage_tell(self, tmp_path: Path) -> None:
        assert len(billed(read(tmp_path, spent(AT, None), spent(AT, None), spent(AT + 1, None)))) == 2

    def test_k5_equal_usages_of_a_subagent_without_ids_stay_two(self, tmp_path: Path) -> None:
        own = spent(AT, None), spent(AT + 1, None)
        mirrors = [mirrored(line, AT + n + 0.5) for n, line in enumerate(own)]
        first = read_usage(source(write(tmp_path / "own", *own), AGENT), 0)
        parent = read_usage(source(write(tmp_path / "parent", *mirrors)), 0)
        assert len(billed(first, parent)) == 2


class TestUnrecorded:
    def kinds(self, batch: UsageBatch) -> list[str]:
        return [item.kind for item in batch.unrecorded]

    def test_k9_every_compaction_leaves_a_trace(self, tmp_path: Path) -> None:
        lines = (
            record("CompactionBegin", AT),
            record("CompactionEnd", AT + 1),
            record("StatusUpdate", AT + 2, token_usage=None, message_id=None, context_tokens=40),
            record("CompactionBegin", AT + 3),
        )
        assert self.kinds(read(tmp_path, *lines)) == ["compaction", "compaction"]

    def test_k9_a_side_question_over_the_wire(self, tmp_path: Path) -> None:
        assert self.kinds(read(tmp_path, record("BtwBegin", id="b1", question="?"))) == ["side question"]
        assert any("/btw" in kind for kind in PROVIDER.usage.unrecorded_kinds)

    @pytest.mark.parametrize(
        ("between", "kinds"),
        [
            ([record("StepBegin", AT + 1, n=1)], ["killed turn"]),
            ([], []),
            ([record("StepBegin", AT + 1, n=1), spent(AT + 2)], []),
            ([record("StepBegin", AT + 1, n=1), spent(AT + 2), record("StepBegin", AT + 3, n=2)], ["killed turn"]),
            ([record("StepBegin", AT + 1, n=1), record("StepInterrupted", AT + 2)], []),
            ([record("StepBegin", AT + 1, n=1), record("TurnEnd", AT + 2)], ["interrupted turn"]),
            ([record("StepBegin", AT + 1, n=1), mirrored(spent(), AT + 2)], ["killed turn"]),
            (
                [record("StepBegin", AT + 1, n=1), record("StatusUpdate", AT + 2, message_id="m", token_usage=None)],
                ["request without usage"],
            ),
        ],
    )
    def test_steps_that_no_usage_followed(self, tmp_path: Path, between: list[bytes], kinds: list[str]) -> None:
        lines = (record("TurnBegin", AT, user_input="x"), *between)
        assert self.kinds(read(tmp_path, *lines, record("TurnBegin", AT + 9, user_input="y"))) == kinds

    def test_an_open_step_is_no_killed_one(self, tmp_path: Path) -> None:
        batch = read(tmp_path, record("TurnBegin", user_input="x"), record("StepBegin", AT + 1, n=1))
        assert self.kinds(batch) == []

    def test_a_subagents_compaction_is_its_own_logs(self, tmp_path: Path) -> None:
        begin = record("CompactionBegin")
        assert self.kinds(read(tmp_path, mirrored(begin, AT + 1))) == []
        assert self.kinds(read(tmp_path, begin, agent=AGENT)) == ["compaction"]
        assert self.kinds(read(tmp_path, mirrored(begin, AT, None, task_tool_call_id="c"))) == ["compaction"]


class TestActions:
    def test_turns_are_what_the_session_was_told(self, tmp_path: Path) -> None:
        lines = record("TurnBegin", AT, user_input="x"), record("SteerInput", AT + 1, user_input="y")
        assert [action.kind for action in read(tmp_path, *lines).actions] == ["turn", "turn"]
        assert read(tmp_path, *lines, agent=AGENT).actions == []

    @pytest.mark.parametrize(
        ("command", "name"),
        [
            ("git status", "Shell git"),
            ("  /usr/local/bin/pytest -q", "Shell pytest"),
            ("ls", "Shell ls"),
            ("ls;rm x", "Shell ls"),
            ("KEY=s3cret CODE='a b' OTHER=\"c d\" make all", "Shell make"),
            ("KEY=$(cat secret) make", "Shell"),
            ("KEY=s3cret", "Shell"),
            ('"$HOME/my tool" x', "Shell"),
            ("(cd x && ls)", "Shell"),
            ("$TOOL x", "Shell"),
            ("pässword x", "Shell"),
            ("x" * 100, "Shell"),
            ("", "Shell"),
            ("A=1 " * 5000 + "make", "Shell"),
        ],
    )
    def test_of_a_command_only_the_program_is_kept(self, tmp_path: Path, command: str, name: str) -> None:
        (action,) = read(tmp_path, shell(command)).actions
        assert (action.kind, action.name) == ("tool", name)
        assert "s3cret" not in repr(action)

    def test_other_tools_by_name_and_odd_arguments(self, tmp_path: Path) -> None:
        lines = (
            shell("ls", AT, "1", name="WriteFile"),
            record("ToolCall", AT, id="2", function={"name": "Shell", "arguments": '{"comm'}),
            record("ToolCall", AT, id="3", function={"name": "Shell", "arguments": None}),
            record("ToolCallRequest", AT, id="4", name="Shell", arguments='{"command": "ls -l"}'),
        )
        names = [action.name for action in read(tmp_path, *lines).actions]
        assert names == ["WriteFile", "Shell", "Shell", "Shell ls"]

    def test_a_request_of_the_same_call_is_the_same_call(self, tmp_path: Path) -> None:
        ask = record("ToolCallRequest", AT + 1, id="call_1", name="Shell", arguments="{}")
        turn = record("TurnBegin", AT + 2, user_input="x")
        assert len(read(tmp_path, turn, shell("ls"), ask).actions) == 2
        assert len(read(tmp_path, shell("ls"), turn, ask).actions) == 3


class TestSources:
    def home(self, path: Path) -> Home:
        return Home(provider="kimi-cli", path=str(path), is_default=False, origin="test")

    def test_logs_of_sessions_and_subagents(self, tmp_path: Path) -> None:
        (tmp_path / "kimi.json").write_text(json.dumps({"work_dirs": [{"path": WORK_DIR, "kaos": "local"}]}))
        session = tmp_path / "sessions" / BUCKET / "s1"
        own = write(session / "wire.jsonl")
        sub = write(session / "subagents" / AGENT / "wire.jsonl")
        (session / "subagents" / "link").symlink_to(sub.parent)
        (session / "subagents" / "x").mkdir()
        (link := session / "subagents" / "x" / "wire.jsonl").symlink_to(sub)
        (session / "subagents" / "y").mkdir()
        os.mkfifo(pipe := session / "subagents" / "y" / "wire.jsonl")
        found = {item.path: item for item in list_usage_sources(self.home(tmp_path))}
        agents = {str(own): None, str(sub): AGENT, str(link): "x", str(pipe): "y"}  # who reads them says what they are
        assert {path: item.agent for path, item in found.items()} == agents
        assert {(item.session_id, item.scope, item.work_dir) for item in found.values()} == {("s1", BUCKET, WORK_DIR)}

    def test_no_home_no_sources(self, tmp_path: Path) -> None:
        assert list(list_usage_sources(self.home(tmp_path / "none"))) == []

    def test_real_trees(self) -> None:
        batches = [read_usage(item, 0) for item in list_usage_sources(self.home(FIXTURES / "kimi-cli"))]
        ids = {
            key: event.tokens for key, event in billed(*batches).items()
        }  # the fork 7e15d1fd repeats two of a0000004
        assert sum(len(batch.events) for batch in batches) == len(ids) + 2
        assert not [skip for batch in batches for skip in batch.skipped]
        kinds = Counter(item.kind for batch in batches for item in batch.unrecorded)
        assert kinds == {"interrupted turn": 1, "compaction": 1}
        assert all(tokens.cache_read == 600 for tokens in ids.values())

    def test_a_real_subagent_is_billed_by_message(self) -> None:
        home = FIXTURES / "kimi-cli-usage"
        batches = [read_usage(item, 0) for item in list_usage_sources(self.home(home))]
        truth: dict[str, int] = {}
        for path in home.rglob("wire.jsonl"):
            for line in path.read_text().splitlines():
                message = json.loads(line).get("message", {"payload": {}})
                while "event" in message["payload"]:
                    message = message["payload"]["event"]
                if message.get("type") == "StatusUpdate":
                    truth[message["payload"]["message_id"]] = sum(message["payload"]["token_usage"].values())
        assert (len(batches), len(billed(*batches))) == (2, 4)
        assert total(*batches).total == sum(truth.values())
