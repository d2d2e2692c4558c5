"""The last turn of kimi-cli's logs: how it stands, and what torn and odd lines change about that."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from corral.model.record import SessionRecord, TurnState
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from tests.providers.kimi_cli.support import (
    KILLED,
    LONG,
    NORMAL,
    SYSTEM_LINE,
    USER_LINE,
    home_at,
    make_session,
    sessions,
    wire_line,
)
from tests.providers.kimi_support import ODD_LINES
from tests.providers.reading import Memory, read_bytes


class TestTurns:
    @pytest.mark.parametrize(
        ("tail", "turn"),
        [
            ([], TurnState.NONE),
            ([("TurnBegin", {"user_input": "hi"})], TurnState.OPEN),
            ([("TurnBegin", {"user_input": "hi"}), ("TurnEnd", {})], TurnState.ENDED),
            ([("TurnBegin", {"user_input": "hi"}), ("ToolCall", {"id": "c1"})], TurnState.IN_TOOL),
            ([("TurnBegin", {}), ("ToolCall", {"id": "c1"}), ("ToolResult", {"tool_call_id": "c1"})], TurnState.OPEN),
            ([("TurnBegin", {}), ("TurnEnd", {}), ("ToolResult", {"tool_call_id": "late"})], TurnState.ENDED),
            ([("TurnBegin", {}), ("TurnEnd", {}), ("StatusUpdate", {})], TurnState.ENDED),
            ([("TurnBegin", {}), ("SubagentEvent", {"event": {"type": "TurnEnd", "payload": {}}})], TurnState.OPEN),
            (
                [
                    ("TurnBegin", {}),
                    ("TurnEnd", {}),
                    ("SubagentEvent", {"event": {"type": "StepBegin", "payload": {}}}),
                ],
                TurnState.ENDED,
            ),
        ],
    )
    def test_the_last_turn(self, bucket: Path, tail: list[tuple[str, dict[str, object]]], turn: TurnState) -> None:
        wire = b'{"type": "metadata"}\n' + b"".join(wire_line(kind, **payload) for kind, payload in tail)
        make_session(bucket, "s1", wire)
        assert sessions(bucket.parent.parent)["s1"].turn is turn

    def test_a_question_without_answer_waits(self, bucket: Path) -> None:
        asked = wire_line("QuestionRequest", id="q", tool_call_id="c1", questions=[{"question": "Which\ncolour?"}])
        wire = wire_line("TurnBegin", user_input=[{"type": "text", "text": "ask me"}])
        wire += wire_line("ToolCall", id="c1") + asked
        directory = make_session(bucket, "s1", wire)
        record = sessions(bucket.parent.parent)["s1"]
        assert (record.turn, record.waits_for) == (TurnState.WAITING, "Which colour?")
        (directory / "wire.jsonl").write_bytes(wire + wire_line("ToolResult", tool_call_id="c1"))
        record = sessions(bucket.parent.parent)["s1"]
        assert (record.turn, record.waits_for, record.unfinished) == (TurnState.OPEN, None, "ask me")

    def test_a_long_prompt_becomes_one_short_line(self, bucket: Path) -> None:
        make_session(bucket, "s1", wire_line("TurnBegin", user_input="\x1b[31mdo\r\n\tthis " + "now " * 100_000))
        unfinished = sessions(bucket.parent.parent)["s1"].unfinished
        assert unfinished is not None
        assert unfinished.startswith("[31mdo this now")
        assert len(unfinished) <= 120


class TestBrokenLogs:
    @pytest.mark.parametrize("session_id", [NORMAL, KILLED, LONG])
    def test_a_last_line_torn_at_any_byte(self, tree: Path, bucket: Path, session_id: str) -> None:
        path = bucket / session_id / "wire.jsonl"
        whole = path.read_bytes()
        start = whole.rstrip(b"\n").rfind(b"\n") + 1
        expected = {TurnState.OPEN} if session_id != NORMAL else {TurnState.OPEN, TurnState.ENDED}
        for end in range(start, len(whole) + 1):
            path.write_bytes(whole[:end])
            record = next(
                item
                for item in kimi_cli.list_sessions(home_at(tree), Memory())
                if isinstance(item, SessionRecord) and item.session_id == session_id
            )
            assert record.turn in expected, end
            assert record.durable
            if end >= len(whole) - 1 and session_id == NORMAL:
                assert record.turn is TurnState.ENDED

    def test_a_context_torn_at_any_byte_of_its_last_line(self, tree: Path, bucket: Path) -> None:
        directory = make_session(bucket, "s1")
        whole = SYSTEM_LINE + USER_LINE
        for end in range(len(SYSTEM_LINE), len(whole) + 1):
            (directory / "context.jsonl").write_bytes(whole[:end])
            assert sessions(tree)["s1"].durable is (end >= len(whole) - 1)

    @pytest.mark.parametrize("odd", ODD_LINES.values(), ids=ODD_LINES.keys())
    def test_an_odd_line_hides_nothing(self, tree: Path, bucket: Path, odd: bytes) -> None:
        for name in ("wire.jsonl", "context.jsonl"):
            path = bucket / KILLED / name
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(odd + odd.join(lines) + odd)
        record = sessions(tree)[KILLED]
        assert (record.turn, record.unfinished, record.durable) == (TurnState.OPEN, "SLOW 25", True)

    def test_a_prompt_with_a_lone_surrogate_is_shown_without_it(self, tree: Path, bucket: Path) -> None:
        line = b'{"timestamp": NaN, "message": {"type": "TurnBegin", "payload": {"user_input": "a\\ud800b"}}}\n'
        make_session(bucket, "s1", line)
        record = sessions(tree)["s1"]
        assert (record.turn, record.unfinished, record.turn_started_at) == (TurnState.OPEN, "a b", None)
        msgspec.json.encode(record)

    def test_a_line_of_300_megabytes_is_not_read(self, tree: Path, bucket: Path) -> None:
        directory = make_session(bucket, "s1", wire_line("TurnBegin", user_input="hi") + b'{"x": "')
        os.truncate(directory / "wire.jsonl", 300 << 20)
        before = read_bytes()
        record = sessions(tree)["s1"]
        assert read_bytes() - before < 64 << 20
        assert record.turn is TurnState.UNREADABLE
        assert "16 MiB" in record.notes[-1]

    def test_a_step_after_a_huge_line_is_still_an_open_turn(self, tree: Path, bucket: Path) -> None:
        directory = make_session(bucket, "s1", wire_line("TurnBegin", user_input="hi") + b'{"x": "')
        os.truncate(directory / "wire.jsonl", 300 << 20)
        with (directory / "wire.jsonl").open("ab") as file:
            file.write(b'"}\n' + wire_line("StepBegin", n=2))
        record = sessions(tree)["s1"]
        assert (record.turn, record.unfinished) == (TurnState.OPEN, None)

    def test_a_sparse_terabyte_is_not_read(self, tree: Path, bucket: Path) -> None:
        directory = make_session(bucket, "s1", b"", context=b"")
        for name in ("wire.jsonl", "context.jsonl"):
            os.truncate(directory / name, 1 << 40)
        record = sessions(tree)["s1"]
        assert record.turn is TurnState.UNREADABLE
        assert len(record.notes) == 2
