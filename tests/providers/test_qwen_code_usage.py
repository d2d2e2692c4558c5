"""Facts about what Qwen Code's sessions cost: real files, copies, any split of the reading, and damaged data."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from corral.model.key import Home
from corral.model.usage import TokenUsage, UsageBatch, UsageEvent, UsageSource
from corral.providers.qwen_code import usage as reading
from corral.providers.qwen_code.homes import NAME
from corral.providers.qwen_code.usage_sources import list_transcripts, list_usage_sources
from corral.system import blocks
from corral.system.usage_files import read_source


def read_usage(source: UsageSource, since: int) -> UsageBatch:
    return read_source(reading.read_usage, source, since)


FIXTURES = Path(__file__).parent / "fixtures" / "qwen-code"
SCOPE = "-home-dev-projects-app"
FORKED = "11111111-1111-4111-8111-111111111111"
FORK = "6ec99149-5ae7-4708-8fbf-9cbeec7623ec"
CANCELLED = "33333333-3333-4333-8333-333333333333"
KILLED_IN_TOOL = "44444444-4444-4444-8444-444444444445"
WITH_TOOL = "5a5a5a5a-5a5a-4a5a-8a5a-5a5a5a5a5a5a"
WITH_AGENT = "46ac6bcd-fca8-4955-a162-c6b6b4c5436d"
SESSION = "aaaaaaaa-0000-4000-8000-00000000000a"
GONE = "b6b6b6b6-b6b6-46b6-86b6-b6b6b6b6b6b6"
CANARY = "CANARY-NOT-A-SECRET"
SOON: dict[str, Any] = {"event.timestamp": "soon"}
AT = "2026-11-15T19:24:33.380Z"


def home_at(path: Path) -> Home:
    return Home(provider=NAME, path=str(path), is_default=False, origin="test", data_path=str(path))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """The recorded home, writable; a whole fork, a session with a sub-agent, and the monthly file of two others."""
    shutil.copytree(FIXTURES / "home", tmp_path / "home")
    for session_id in (FORK, WITH_AGENT):
        chats = tmp_path / "home" / "projects" / SCOPE / "chats"
        shutil.copy(FIXTURES / f"usage-{session_id}.jsonl", chats / f"{session_id}.jsonl")
    (tmp_path / "home" / "usage").mkdir()
    shutil.copy(FIXTURES / "token-usage-2026-11.jsonl", tmp_path / "home" / "usage")
    return home_at(tmp_path / "home")


def read_all(home: Home) -> dict[str, UsageBatch]:
    return {os.path.basename(source.path): read_usage(source, 0) for source in list_usage_sources(home)}


def total(events: list[UsageEvent]) -> TokenUsage:
    return sum((event.tokens for event in {event.key: event for event in events}.values()), TokenUsage())


def response(number: int = 1, **changes: Any) -> dict[str, Any]:
    event = {
        "event.name": "qwen-code.api_response",
        "event.timestamp": AT,
        "response_id": f"chatcmpl-{number}",
        "model": "qwen3-coder-plus",
        "input_token_count": 1000,
        "output_token_count": 50,
        "cached_content_token_count": 600,
        "thoughts_token_count": 20,
        "total_token_count": 1050,
        "response_text": CANARY,
    }
    return record("system", f"u{number}", subtype="ui_telemetry", systemPayload={"uiEvent": event | changes})


def tool_call(uuid: str, name: str, args: object) -> dict[str, Any]:
    event = {"event.name": "qwen-code.tool_call", "call_id": "call_0", "function_name": name, "function_args": args}
    return record("system", uuid, subtype="ui_telemetry", systemPayload={"uiEvent": event})


def record(kind: str, uuid: str, **fields: Any) -> dict[str, Any]:
    return {"uuid": uuid, "parentUuid": None, "sessionId": SESSION, "timestamp": AT, "type": kind, **fields}


def prompt(uuid: str, text: str, **fields: Any) -> dict[str, Any]:
    return record("user", uuid, message={"role": "user", "parts": [{"text": text}]}, **fields)


def line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def write(tmp_path: Path, *lines: bytes, session_id: str = SESSION) -> UsageSource:
    chats = tmp_path / "projects" / SCOPE / "chats"
    chats.mkdir(parents=True, exist_ok=True)
    (chats / f"{session_id}.jsonl").write_bytes(b"".join(lines))
    return next(source for source in list_usage_sources(home_at(tmp_path)) if source.session_id == session_id)


def write_month(tmp_path: Path, *lines: bytes) -> UsageSource:
    (tmp_path / "usage").mkdir(exist_ok=True)
    (tmp_path / "usage" / "token-usage-2026-11.jsonl").write_bytes(b"".join(lines))
    return next(source for source in list_usage_sources(home_at(tmp_path)) if not source.session_id)


def month_line(number: int, session_id: str, **changes: Any) -> bytes:
    tokens = {"inputTokens": 1000, "outputTokens": 50, "cachedTokens": 600, "thoughtsTokens": 20, "totalTokens": 1050}
    names = {"id": f"id-{number}", "timestamp": AT, "sessionId": session_id, "model": "m", "source": "main"}
    return line(tokens | names | changes)


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
        assert len({deed.key for deed in original.deeds + fork.deeds}) == 8 + 2

    def test_sub_agents_are_in_the_telemetry_of_their_session(self, home: Home) -> None:
        batch = read_all(home)[f"{WITH_AGENT}.jsonl"]
        tokens = total(batch.events)
        assert len(batch.events) == 10
        assert tokens.input + tokens.cache_read == 10087
        assert sum(event.agent is not None for event in batch.events) == 3
        assert [deed.name for deed in batch.deeds if deed.kind == "tool"] == ["run_shell_command env", "agent"]
        assert sum(deed.kind == "turn" for deed in batch.deeds) == 4
        assert not batch.unrecorded

    def test_turns_tools_and_traces(self, home: Home) -> None:
        batches = read_all(home)
        cancelled, tool = batches[f"{CANCELLED}.jsonl"], batches[f"{WITH_TOOL}.jsonl"]
        assert [deed.kind for deed in cancelled.deeds] == ["turn"] * 3
        assert [trace.kind for trace in cancelled.unrecorded] == [reading.ABORTED]
        assert [(deed.kind, deed.name) for deed in tool.deeds] == [("turn", ""), ("tool", "run_shell_command env")]
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
        assert (len(batch.events), len(batch.unrecorded), len(batch.deeds)) == (1, 0, 0)
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
        assert [deed.key for deed in batch.deeds] == ["p", "steer", "path"]

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
        assert [(deed.kind, deed.name) for deed in batch.deeds] == [("tool", expected)]
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
                assert first.deeds + second.deeds == whole.deeds
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
        assert len(batch.deeds) == 1

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
        assert [session_id for _, session_id, _ in list_transcripts(str(tmp_path))] == [SESSION]

    def test_a_file_that_became_a_pipe_or_went_away(self, tmp_path: Path) -> None:
        source = write(tmp_path, line(response()))
        os.unlink(source.path)
        assert (read_usage(source, 7).next_offset, len(read_usage(source, 7).skipped)) == (7, 1)
        os.mkfifo(source.path)
        assert (read_usage(source, 7).next_offset, len(read_usage(source, 7).skipped)) == (7, 1)
