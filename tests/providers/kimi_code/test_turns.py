"""The last turn of kimi-code's logs: how it stands, and what torn and odd lines change about that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.model.record import SessionRecord, TurnState
from corral.providers.kimi_code import PROVIDER as kimi_code
from tests.providers.kimi_code.support import (
    KILLED,
    LONG,
    MIGRATED,
    NORMAL,
    event,
    home_at,
    make_session,
    prompt,
    sessions,
)
from tests.providers.kimi_support import ODD_LINES
from tests.providers.reading import Memory, read_bytes


class TestTurns:
    @pytest.mark.parametrize(
        ("wire", "turn"),
        [
            (b"", TurnState.NONE),
            (event("forked"), TurnState.NONE),
            (prompt("a"), TurnState.OPEN),
            (prompt("a") + event("turn.ended", turnId=0), TurnState.ENDED),
            (prompt("a") + event("turn.ended", turnId="0"), TurnState.ENDED),
            (prompt("a") + prompt("queued", 1) + event("turn.ended", turnId=0), TurnState.OPEN),
            (prompt("lost") + prompt("b", 1) + event("turn.ended", turnId=1), TurnState.ENDED),
            (prompt("a") + event("agent.turn.ended", turnId=0), TurnState.OPEN),
            (prompt("a") + event("interaction.request", id="i", kind="approval", request={}), TurnState.WAITING),
            (
                prompt("a")
                + event("interaction.request", id="i", kind="approval", request={})
                + event("interaction.resolved", id="i"),
                TurnState.OPEN,
            ),
            (
                prompt("a")
                + event("interaction.request", id="i", kind="approval", request={})
                + event("turn.ended", turnId=0),
                TurnState.ENDED,
            ),
            (prompt("a") + event("interaction.request", id="i", kind=7, request=[]), TurnState.WAITING),
        ],
    )
    def test_the_last_turn(self, tree: Path, bucket: Path, wire: bytes, turn: TurnState) -> None:
        make_session(bucket, "session_1", b'{"type":"metadata"}\n' + wire)
        assert sessions(tree)["session_1"].turn is turn


class TestBrokenLogs:
    @pytest.mark.parametrize("session_id", [NORMAL, KILLED, LONG, MIGRATED])
    def test_a_last_line_torn_at_any_byte(self, tree: Path, bucket: Path, session_id: str) -> None:
        path = bucket / session_id / "agents" / "main" / "wire.jsonl"
        whole = path.read_bytes()
        whole_turn = sessions(tree)[session_id].turn
        start = whole.rstrip(b"\n").rfind(b"\n") + 1
        last_matters = b'"turn.' in whole[start:]
        for end in range(start, len(whole) + 1):
            path.write_bytes(whole[:end])
            record = next(
                item
                for item in kimi_code.list_sessions(home_at(tree), Memory())
                if isinstance(item, SessionRecord) and item.session_id == session_id
            )
            assert record.durable
            if last_matters and end < len(whole) - 1:
                assert record.turn in {TurnState.OPEN, TurnState.ENDED}
            else:
                assert record.turn is whole_turn, end

    @pytest.mark.parametrize("odd", ODD_LINES.values(), ids=ODD_LINES.keys())
    def test_an_odd_line_hides_nothing(self, tree: Path, bucket: Path, odd: bytes) -> None:
        path = bucket / KILLED / "agents" / "main" / "wire.jsonl"
        path.write_bytes(odd + odd.join(path.read_bytes().splitlines(keepends=True)) + odd)
        record = sessions(tree)[KILLED]
        assert (record.turn, record.unfinished) == (TurnState.OPEN, "SLOW 25")

    def test_a_prompt_with_a_lone_surrogate_is_shown_without_it(self, tree: Path, bucket: Path) -> None:
        wire = b'{"type":"turn.prompt","turnId":0,"input":[{"type":"text","text":"a\\ud83d b"}]}\n'
        make_session(bucket, "session_1", wire)
        assert sessions(tree)["session_1"].unfinished == "a b"

    def test_a_line_of_300_megabytes_is_not_read(self, tree: Path, bucket: Path) -> None:
        directory = make_session(bucket, "session_1", prompt("a") + b'{"x":"')
        wire = directory / "agents" / "main" / "wire.jsonl"
        os.truncate(wire, 300 << 20)
        before = read_bytes()
        record = sessions(tree)["session_1"]
        assert read_bytes() - before < 64 << 20
        assert record.turn is TurnState.UNREADABLE
        with wire.open("ab") as file:
            file.write(b'"}\n' + event("context.append_loop_event", event={"type": "step.begin"}))
        assert sessions(tree)["session_1"].turn is TurnState.OPEN
        with wire.open("ab") as file:
            file.write(event("turn.ended", turnId=0))
        assert sessions(tree)["session_1"].turn is TurnState.ENDED
