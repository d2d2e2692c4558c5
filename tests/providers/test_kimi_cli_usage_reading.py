"""How the usage of kimi-cli is read: what only looks like it counts nothing, damage costs its line, appended lines are read alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.providers.kit import blocks
from tests.providers.kimi_cli_usage_support import (
    AT,
    LOG,
    mirrored,
    read,
    read_usage,
    record,
    shell,
    source,
    spent,
    write,
)
from tests.providers.kimi_usage_support import Appends, OddLogs, total


class TestWhatIsNotUsage(OddLogs):
    log = LOG
    usage = (spent(AT), spent(AT + 1))

    def test_k6_text_that_quotes_a_record(self, tmp_path: Path) -> None:
        quoted = record("ContentPart", type="text", text=spent().decode())
        strange = record("SomethingNew", text=spent().decode(), words=["TurnBegin", "ToolCall", "token_usage"])
        batch = read(tmp_path, quoted, strange)
        assert (batch.events, batch.actions, batch.skipped) == ([], [], [])

    def test_k6_null_usage_is_no_usage(self, tmp_path: Path) -> None:
        batch = read(tmp_path, record("StatusUpdate", token_usage=None, message_id=None), record("StatusUpdate"))
        assert (batch.events, batch.unrecorded, batch.skipped) == ([], [], [])

    def test_k6_a_line_separator_and_bad_utf8_within_a_line(self, tmp_path: Path) -> None:
        odd = json.dumps(json.loads(spent(AT, note="\u2028\x85")), ensure_ascii=False).encode() + b"\n"
        bad = spent(AT + 1, note="?").replace(b'"?"', b'"\xff\xfe"')
        batch = read(tmp_path, odd, bad, spent(AT + 2))
        assert (len(batch.events), batch.skipped) == (3, [])

    def test_k6_a_torn_last_line_waits(self, tmp_path: Path) -> None:
        path = write(tmp_path / "wire.jsonl", spent(AT))
        whole = path.stat().st_size
        line = spent(AT + 1, "chatcmpl-2")
        with path.open("ab") as file:
            file.write(line[:-1])
        batch = read_usage(source(path), 0)
        assert (len(batch.events), batch.next_offset, batch.skipped) == (1, whole, [])
        with path.open("ab") as file:
            file.write(b"\n")
        again = read_usage(source(path), batch.next_offset)
        assert (len(again.events), again.next_offset) == (1, path.stat().st_size)

    @pytest.mark.parametrize(
        "bad",
        [
            spent(tokens=(float("nan"), 1, 1, 1)),
            spent(tokens=(1 << 64, 1, 1, 1)),
            spent(tokens=(-1, 1, 1, 1)),
            spent(tokens=("1", 1, 1, 1)),
            spent(tokens=(True, 1, 1, 1)),
            spent(tokens=(1.5, 1, 1, 1)),
            spent(tokens=(None, 1, 1, 1)),
            spent(at=float("nan")),
            spent(at=None),
            spent(at=-5),
            spent(at="now"),
            spent(at=1 << 70),
            spent()[:120] + b"\n",
            spent(tokens=(1, 1, 1, 1), message_id=["x"]),
            b'{"token_usage": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
        ],
    )
    def test_bad_usage_is_skipped_with_its_place_and_the_rest_is_exact(self, tmp_path: Path, bad: bytes) -> None:
        batch = read(tmp_path, spent(AT), bad, spent(AT + 1))
        assert total(batch).input == 20
        (skip,) = batch.skipped
        assert skip.offset == 49 + len(spent(AT))
        assert skip.reason

    def test_lone_surrogates_in_ids_and_names_can_be_stored(self, tmp_path: Path) -> None:
        call = record("ToolCall", id="\ud800", function={"name": "X\udfff", "arguments": "{"})
        batch = read(tmp_path, spent(message_id="\ud800"), call)
        for text in (batch.events[0].key, batch.actions[0].key, batch.actions[0].name):
            text.encode()

    def test_a_line_too_long_is_skipped_unless_it_can_not_be_usage(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blocks, "LARGEST_LINE", 10_000)
        monkeypatch.setattr(blocks, "CHUNK", 777)
        monkeypatch.setattr(blocks, "_idle", [])
        long = spent(AT, note="x" * 20_000)
        dull = record("ToolResult", return_value="x" * 20_000)
        fits = spent(AT + 1, note="x" * 9_000)
        batch = read(tmp_path, dull, spent(AT + 2), long, fits, spent(AT + 3))
        assert (total(batch).input, len(batch.skipped)) == (30, 1)
        assert batch.skipped[0].offset == 49 + len(dull) + len(spent(AT + 2))


MIXED = (
    record("TurnBegin", AT, user_input="x"),
    record("StepBegin", AT + 1, n=1),
    record("ContentPart", AT + 2, type="text", text="…"),
    shell("git log", AT + 3, "call_2"),
    record("ToolCallRequest", AT + 3.5, id="call_2", name="Shell", arguments="{}"),
    spent(AT + 4, "chatcmpl-4"),
    mirrored(spent(AT + 5, None), AT + 5),
    mirrored(spent(AT + 6, None), AT + 6),
    mirrored(spent(AT + 7, "chatcmpl-7"), AT + 7),
    record("StepBegin", AT + 8, n=2),
    record("TurnBegin", AT + 9, user_input="y"),
    record("CompactionBegin", AT + 10),
    record("StepBegin", AT + 11, n=1),
    b'\x00 torn "token_usage" {\n',
    record("TurnEnd", AT + 12),
    spent(AT + 13, None),
    mirrored(spent(AT + 14, None), AT + 14),
    record("TurnBegin", AT + 15, user_input="z"),
)


class TestAppends(Appends):
    log = LOG
    mixed = MIXED

    def test_nothing_new_is_nothing(self, tmp_path: Path) -> None:
        path = write(tmp_path / "wire.jsonl", *MIXED)
        size = path.stat().st_size
        batch = read_usage(source(path), size)
        assert (batch.next_offset, batch.events, batch.actions, batch.skipped) == (size, [], [], [])
