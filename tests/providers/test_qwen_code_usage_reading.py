"""How the usage of Qwen Code is read: any split of a file gives the same, and damaged data cost no more than their line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.model.key import Home
from corral.providers.kit import blocks
from corral.providers.qwen_code import usage as reading
from corral.providers.qwen_code.usage import list_usage_sources
from tests.providers.qwen_usage_support import (
    FORK,
    GONE,
    SESSION,
    SOON,
    home_at,
    line,
    month_line,
    prompt,
    read_all,
    read_usage,
    record,
    recorded_home,
    response,
    write,
    write_month,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return recorded_home(tmp_path)


class TestReading:
    def test_any_split_gives_the_same(self, home: Home) -> None:
        for source in list_usage_sources(home):
            data = Path(source.path).read_bytes()
            whole = read_usage(source, 0)
            for cut in range(0, len(data), max(1, len(data) // 97)):
                Path(source.path).write_bytes(data[:cut])
                first = read_usage(source, 0)
                Path(source.path).write_bytes(data)
                second = read_usage(source, first.next_offset)
                assert first.next_offset <= cut
                assert first.events + second.events == whole.events
                assert first.actions + second.actions == whole.actions
                assert first.unrecorded + second.unrecorded == whole.unrecorded
                assert second.next_offset == whole.next_offset == len(data)

    def test_small_chunks_give_the_same(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = read_all(home)
        monkeypatch.setattr(blocks, "CHUNK", 37)
        assert read_all(home) == whole

    def test_a_torn_last_line_waits(self, tmp_path: Path) -> None:
        source = write(tmp_path, line(response(1)), line(response(2))[:-1])
        batch = read_usage(source, 0)
        assert [len(batch.events), len(batch.skipped), batch.next_offset] == [1, 0, len(line(response(1)))]

    def test_two_records_on_one_line_are_two(self, tmp_path: Path) -> None:
        result = record("tool_result", "r", message={"role": "user", "parts": []})
        glued = line(response(1))[:-1] + line(response(2)), line(result)[:-1] + line(response(3))
        batch = read_usage(write(tmp_path, *glued), 0)
        assert len(batch.events) == 3
        assert not batch.skipped

    def test_a_long_first_record_still_names_its_origin(self, tmp_path: Path) -> None:
        origin = {"cwd": "/x", "forkedFrom": {"sessionId": GONE, "messageUuid": "p"}}
        source = write(tmp_path, line(prompt("p", "x" * 100_000, **origin)))
        assert (source.work_dir, source.parent_id) == ("/x", GONE)

    @pytest.mark.parametrize(
        "bad",
        [
            line(response(9, input_token_count=float("nan"))),
            line(response(9, input_token_count=2**64)),
            line(response(9, output_token_count=-1)),
            line(response(9, input_token_count="1000")),
            line(response(9, **SOON) | {"timestamp": "soon"}),
            line(response(9, response_text="x"))[:-40] + b"\n",
            line(response(9))[:-3] + b',"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}}\n",
        ],
        ids=["nan", "2^64", "negative", "text", "no time", "torn", "deep"],
    )
    def test_damage_costs_one_line(self, tmp_path: Path, bad: bytes) -> None:
        batch = read_usage(write(tmp_path, line(response(1)), bad, line(response(2))), 0)
        assert [event.key.partition("@")[0] for event in batch.events] == ["chatcmpl-1", "chatcmpl-2"]
        assert [skip.offset for skip in batch.skipped] == [len(line(response(1)))]

    def test_oddities_in_other_fields_cost_nothing(self, tmp_path: Path) -> None:
        odd = [
            line(response(1, duration_ms=float("nan"))),
            line(response(2, response_text="\ud800")),
            line(response(3, model="m\ud800")),
            line(response(4, response_text="@@")).replace(b"@@", b"\xff\xfe"),
        ]
        batch = read_usage(write(tmp_path, *odd), 0)
        assert [event.model for event in batch.events] == ["qwen3-coder-plus"] * 2 + ["m?", "qwen3-coder-plus"]
        assert not batch.skipped

    def test_a_quoted_record_is_not_one(self, tmp_path: Path) -> None:
        quoting = prompt("p", line(response(9)).decode())
        batch = read_usage(write(tmp_path, line(quoting)), 0)
        assert not batch.events
        assert len(batch.actions) == 1

    def test_a_huge_line_is_skipped_in_little_memory(self, tmp_path: Path) -> None:
        import tracemalloc

        source = write(tmp_path, line(response(1)))
        with open(source.path, "r+b") as file:
            file.seek(300 << 20, os.SEEK_END)  # a hole: 300 MiB of zeros that take no room
            file.write(b"\n" + line(response(2)))
        tracemalloc.start()
        batch = read_usage(source, 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(batch.events) == 2
        assert [skip.offset for skip in batch.skipped] == [len(line(response(1)))]
        assert batch.next_offset == os.path.getsize(source.path)
        assert peak < 80 << 20

    def test_damaged_monthly_lines(self, tmp_path: Path) -> None:
        bad = [b"{}\n", b"\xff\n", month_line(2, GONE, inputTokens=-1), month_line(3, GONE, timestamp="")]
        zero = dict.fromkeys(("inputTokens", "outputTokens", "cachedTokens", "thoughtsTokens", "totalTokens"), 0)
        lines = [month_line(1, GONE), *bad, b"\n", month_line(4, GONE, model="unknown"), month_line(5, GONE, **zero)]
        batch = read_usage(write_month(tmp_path, *lines), 0)
        assert [(event.key, event.model) for event in batch.events] == [
            ("token-usage:id-1", "m"),
            ("token-usage:id-4", None),
        ]
        assert len(batch.skipped) == 4
        assert [trace.kind for trace in batch.unrecorded] == [reading.UNCOUNTED]

    def test_what_stands_in_the_place_of_a_transcript_is_listed_for_who_reads_it_to_tell(self, tmp_path: Path) -> None:
        source = write(tmp_path, line(response()))
        chats = Path(source.path).parent
        os.mkfifo(chats / f"{GONE}.jsonl")
        os.symlink(source.path, chats / f"{FORK}.jsonl")
        (chats / "notes.jsonl").write_bytes(line(response()))
        assert {each.session_id for each in list_usage_sources(home_at(tmp_path))} == {SESSION, GONE, FORK}
        month = write_month(tmp_path, *(month_line(number, one) for number, one in enumerate((SESSION, GONE, FORK))))
        assert [event.session_id for event in read_usage(month, 0).events] == [GONE, FORK]

    def test_a_file_that_became_a_pipe_or_went_away(self, tmp_path: Path) -> None:
        source = write(tmp_path, line(response()))
        os.unlink(source.path)
        assert (read_usage(source, 7).next_offset, len(read_usage(source, 7).skipped)) == (7, 1)
        os.mkfifo(source.path)
        assert (read_usage(source, 7).next_offset, len(read_usage(source, 7).skipped)) == (7, 1)
