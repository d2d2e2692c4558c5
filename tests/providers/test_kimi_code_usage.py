"""What kimi-code spent: each usage record once, under the model that was really asked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from corral.model.key import Home
from corral.model.usage import TokenUsage
from corral.providers.kimi_code import PROVIDER
from corral.providers.kimi_code import usage as reading
from corral.providers.kimi_code.usage import list_usage_sources
from corral.providers.kit import blocks
from tests.providers.kimi_support import FIXTURES
from tests.providers.kimi_usage_support import Appends, OddLogs, WireLog, billed, total

WORK_DIR = "/home/dev/projects/app"
BUCKET = "wd_app_b6c1126a8611"
AT = 1794771774041
ZERO = (0, 0, 0, 0)
LOG = WireLog(
    provider="kimi-code",
    reader=reading.read_usage,
    scope=BUCKET,
    session_id="session_1",
    head=b'{"type":"metadata","protocol_version":"1.4"}\n',
)
write, source, read, read_usage = LOG.write, LOG.source, LOG.read, LOG.read_usage


def event(kind: str, at: object = AT, agent: str = "main", /, **fields: object) -> bytes:
    return json.dumps({"type": kind, "agentId": agent, **fields, "time": at}, separators=(",", ":")).encode() + b"\n"


def counts(tokens: Iterable[object]) -> dict[str, object]:
    return dict(zip(("inputOther", "output", "inputCacheRead", "inputCacheCreation"), tokens, strict=True))


def spent(
    at: object = AT,
    tokens: Iterable[object] = (10, 2, 30, 4),
    model: object = "fake",
    agent: str = "main",
    scope: str = "turn",
) -> bytes:
    return event("usage.record", at, agent, model=model, usage=counts(tokens), usageScope=scope)


def asked(at: object = AT, model: str = "kimi-k2.5", alias: str = "fake") -> bytes:
    return event("llm.request", at, kind="loop", provider="openai", model=model, modelAlias=alias)


def prompt(at: int = AT, turn: object = 0) -> bytes:
    return event("turn.prompt", at, input=[{"type": "text", "text": "x"}], promptId=f"msg_{turn}", turnId=turn)


def loop(kind: str, at: int = AT, **fields: object) -> bytes:
    return event("context.append_loop_event", at, event={"type": kind, **fields})


def call(name: str, args: object, at: int = AT, uuid: str = "u1") -> bytes:
    return loop("tool.call", at, uuid=uuid, toolCallId="call_1", name=name, args=args)


class TestTokens:
    def test_every_kind_goes_to_its_own(self, tmp_path: Path) -> None:
        (one,) = read(tmp_path, spent()).events
        assert one.tokens == TokenUsage(input=10, output=2, cache_read=30, cache_write=4)
        assert (one.at, one.session_id, one.agent, one.model) == (AT / 1000, "session_1", None, "fake")

    def test_repetitions_of_the_same_figures_are_not_counted(self, tmp_path: Path) -> None:
        usage = counts((10, 2, 30, 4))
        appended = {"message": {"message": {}, "meta": {"usage": usage}}, "type": "agent.message.appended", "time": AT}
        lines = (
            spent(),
            loop("step.end", uuid="s", usage=usage, messageId="chatcmpl-1"),
            json.dumps(appended).encode() + b"\n",
            event("subagent.completed", subagentId="agent-0", usage=usage),
        )
        batch = read(tmp_path, *lines)
        assert (total(batch).input, batch.skipped) == (10, [])

    def test_k10_a_record_of_the_session_is_a_request_of_its_own(self, tmp_path: Path) -> None:
        batch = read(tmp_path, spent(), spent(AT + 1, (5, 1, 0, 0), scope="session"), spent(AT + 2))
        assert total(batch).input == 25

    def test_spaced_json_and_another_order_of_keys(self, tmp_path: Path) -> None:
        turned = dict(reversed(json.loads(spent(AT + 1)).items()))
        lines = json.dumps(json.loads(spent())).encode() + b"\n", json.dumps(turned).encode() + b"\n"
        assert len(read(tmp_path, *lines).events) == 2


class TestModel:
    @pytest.mark.parametrize(
        ("lines", "models"),
        [
            ([spent()], ["fake"]),
            ([asked(), spent()], ["kimi-k2.5"]),
            ([asked(), spent(), asked(AT + 1, "kimi-k3"), spent(AT + 2)], ["kimi-k2.5", "kimi-k3"]),
            ([asked(), asked(AT + 1, "other", "small"), spent(AT + 2)], ["kimi-k2.5"]),
            ([spent(), asked(AT + 1)], ["fake"]),
            ([asked(), spent(model=None)], [None]),
        ],
    )
    def test_k10_the_alias_stands_for_what_was_asked_last(
        self, tmp_path: Path, lines: list[bytes], models: list[str | None]
    ) -> None:
        assert [one.model for one in read(tmp_path, *lines).events] == models

    def test_the_request_may_lie_before_the_reading(self, tmp_path: Path) -> None:
        before = asked(), asked(AT, "other", "small"), *[loop("content.part", part="x" * 999)] * 200
        path = write(tmp_path / "wire.jsonl", *before)
        size = path.stat().st_size
        with path.open("ab") as file:
            file.write(spent() + spent(AT + 1, model="small"))
        assert [one.model for one in read_usage(source(path), size).events] == ["kimi-k2.5", "other"]


class TestCopies:
    def test_k1_a_fork_copies_lines_that_are_billed_once(self, tmp_path: Path) -> None:
        old = prompt(), asked(), spent(), call("Bash", {"command": "ls"}), event("turn.steer", AT + 5, messageId="m")
        first = read_usage(source(write(tmp_path / "a", *old)), 0)
        fork = write(tmp_path / "b", *old, event("forked"), spent(AT + 9))
        second = read_usage(source(fork, session="session_2"), 0)
        assert total(first, second).input == 20
        assert {action.key for action in first.actions} == {action.key for action in second.actions}
        assert len(first.actions) == 3

    def test_k3_equal_usages_at_other_times_or_of_other_agents_stay_apart(self, tmp_path: Path) -> None:
        lines = spent(), spent(), spent(AT + 1), spent(agent="agent-0"), spent(model="other")
        assert len(billed(read(tmp_path, *lines))) == 4

    def test_k4_a_subagents_log_is_the_only_record_of_it(self, tmp_path: Path) -> None:
        usage = counts((10, 2, 30, 4))
        own = read_usage(source(write(tmp_path / "sub", spent(agent="agent-0")), "agent-0"), 0)
        parent = read_usage(source(write(tmp_path / "main", event("subagent.completed", usage=usage))), 0)
        (one,) = billed(own, parent).values()
        assert (one.agent, one.session_id) == ("agent-0", "session_1")


class TestWhatIsNotUsage(OddLogs):
    log = LOG
    usage = (spent(AT), spent(AT + 1))

    def test_k6_text_that_quotes_a_record(self, tmp_path: Path) -> None:
        lines = (
            loop("content.part", part={"text": spent().decode()}),
            event("something.new", text=spent().decode(), words=["usage.record", "turn.prompt", "tool.call"]),
            event("context.append_message", message={"content": [{"text": spent().decode()}]}),
        )
        batch = read(tmp_path, *lines)
        assert (batch.events, batch.actions, batch.skipped) == ([], [], [])

    def test_k6_a_torn_last_line_waits(self, tmp_path: Path) -> None:
        path = write(tmp_path / "wire.jsonl", spent())
        whole = path.stat().st_size
        with path.open("ab") as file:
            file.write(spent(AT + 1)[:-1])
        batch = read_usage(source(path), 0)
        assert (len(batch.events), batch.next_offset, batch.skipped) == (1, whole, [])

    @pytest.mark.parametrize(
        "bad",
        [
            spent(tokens=(float("nan"), 1, 1, 1)),
            spent(tokens=(1 << 64, 1, 1, 1)),
            spent(tokens=(-1, 1, 1, 1)),
            spent(tokens=("1", 1, 1, 1)),
            spent(tokens=(1.5, 1, 1, 1)),
            spent(tokens=(None, 1, 1, 1)),
            event("usage.record", model="fake", usage=None),
            event("usage.record", model="fake", usage={}),
            spent(at=float("nan")),
            spent(at=None),
            spent(at=-5),
            spent(at="now"),
            spent(at=1 << 70),
            spent(model=["x"]),
            spent()[:70] + b"\n",
            b'{"usage.record": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
            b'{"type":"usage.record","x":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
        ],
    )
    def test_bad_usage_is_skipped_with_its_place_and_the_rest_is_exact(self, tmp_path: Path, bad: bytes) -> None:
        batch = read(tmp_path, spent(AT), bad, spent(AT + 1))
        assert total(batch).input == 20
        (skip,) = batch.skipped
        assert skip.offset == 45 + len(spent(AT))
        assert skip.reason

    def test_lone_surrogates_can_be_stored(self, tmp_path: Path) -> None:
        batch = read(tmp_path, spent(model="\ud800"), call("\udfff", {}))
        for text in (batch.events[0].key, batch.events[0].model, batch.actions[0].name):
            assert text is not None
            text.encode()

    def test_a_line_too_long_is_skipped_unless_it_can_not_be_usage(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blocks, "LARGEST_LINE", 10_000)
        monkeypatch.setattr(blocks, "CHUNK", 777)
        monkeypatch.setattr(blocks, "_idle", [])
        dull = loop("tool.result", result="x" * 20_000)
        long = event("usage.record", model="x" * 20_000, usage=counts((1, 1, 1, 1)))
        batch = read(tmp_path, dull, spent(), long, spent(AT + 1))
        assert (total(batch).input, len(batch.skipped)) == (20, 1)
        assert batch.skipped[0].offset == 45 + len(dull) + len(spent())


class TestUnrecorded:
    @pytest.mark.parametrize(
        ("lines", "kinds"),
        [
            ([prompt(), asked(), spent(tokens=ZERO)], ["interrupted turn"]),
            ([prompt(), asked(), spent(tokens=ZERO, scope="session")], ["request without usage"]),
            ([prompt(), asked()], []),
            ([prompt(), asked(), prompt(AT + 1, 1)], ["killed turn"]),
            ([prompt(), asked(), spent(), prompt(AT + 1, 1)], []),
            ([prompt(), asked(), event("turn.ended", turnId=0), prompt(AT + 1, 1)], []),
            ([prompt(), prompt(AT + 1, 1)], []),
        ],
    )
    def test_k9_requests_without_tokens(self, tmp_path: Path, lines: list[bytes], kinds: list[str]) -> None:
        assert [item.kind for item in read(tmp_path, *lines).unrecorded] == kinds

    def test_kinds_without_a_trace_are_named(self) -> None:
        assert all(kind and kind == kind.strip() for kind in PROVIDER.usage.unrecorded_kinds)


class TestActions:
    def test_turns_are_what_the_session_was_told(self, tmp_path: Path) -> None:
        lines = prompt(), event("turn.steer", AT + 1, messageId="m1"), prompt(AT + 2, 1)
        assert [action.kind for action in read(tmp_path, *lines).actions] == ["turn"] * 3
        assert read(tmp_path, *lines, agent="agent-0").actions == []

    def test_k10_prompts_that_migrate_wrote_again_are_none(self, tmp_path: Path) -> None:
        assert read(tmp_path, prompt(turn=None)).actions == []

    @pytest.mark.parametrize(
        ("name", "args", "expected"),
        [
            ("Bash", {"command": "git status"}, "Bash git"),
            ("Bash", {"command": "KEY=s3cret /usr/bin/make all"}, "Bash make"),
            ("Bash", {"command": "KEY='s3cret make"}, "Bash"),
            ("Bash", {"command": 7}, "Bash"),
            ("Bash", ["ls"], "Bash"),
            ("Bash", None, "Bash"),
            ("Write", {"command": "git status"}, "Write"),
        ],
    )
    def test_of_a_command_only_the_program_is_kept(
        self, tmp_path: Path, name: str, args: object, expected: str
    ) -> None:
        (action,) = read(tmp_path, call(name, args)).actions
        assert (action.kind, action.name) == ("tool", expected)
        assert "s3cret" not in repr(action)


MIXED = (
    prompt(AT, 0),
    asked(AT + 1),
    spent(AT + 2),
    call("Bash", {"command": "ls -l"}, AT + 3),
    loop("tool.result", AT + 4, result="x"),
    asked(AT + 5, "kimi-k3"),
    spent(AT + 6),
    asked(AT + 7, "tiny", "small"),
    spent(AT + 8, model="small", scope="session"),
    spent(AT + 9, ZERO),
    asked(AT + 10),
    b'\x00 torn "usage.record" {\n',
    event("usage.record", AT + 11, model="fake"),
    prompt(AT + 12, 1),
    event("turn.steer", AT + 13, messageId="m"),
    event("turn.ended", AT + 14, turnId=1),
    spent(AT + 15),
    prompt(AT + 16, 2),
)


class TestAppends(Appends):
    log = LOG
    mixed = MIXED


class TestSources:
    def home(self, path: Path) -> Home:
        return Home(provider="kimi-code", path=str(path), is_default=False, origin="test")

    def test_logs_of_all_agents(self, tmp_path: Path) -> None:
        session = tmp_path / "sessions" / BUCKET / "session_2"
        main = write(session / "agents" / "main" / "wire.jsonl")
        sub = write(session / "agents" / "agent-0" / "wire.jsonl")
        (session / "agents" / "link").symlink_to(sub.parent)
        (session / "agents" / "agent-1").mkdir()
        os.mkfifo(pipe := session / "agents" / "agent-1" / "wire.jsonl")
        (session / "state.json").write_text(json.dumps({"id": "session_2", "cwd": WORK_DIR, "forkedFrom": "session_1"}))
        found = {item.path: item for item in list_usage_sources(self.home(tmp_path))}
        agents = {str(main): None, str(sub): "agent-0", str(pipe): "agent-1"}  # who reads it says what it is
        assert {path: item.agent for path, item in found.items()} == agents
        assert {(item.session_id, item.work_dir, item.parent_id) for item in found.values()} == {
            ("session_2", WORK_DIR, "session_1")
        }

    def test_a_session_without_readable_state_is_read_all_the_same(self, tmp_path: Path) -> None:
        write(tmp_path / "sessions" / BUCKET / "session_2" / "agents" / "main" / "wire.jsonl", spent())
        (one,) = list_usage_sources(self.home(tmp_path))
        assert (one.work_dir, one.parent_id, len(read_usage(one, 0).events)) == (None, None, 1)

    def test_real_trees(self) -> None:
        found = list(list_usage_sources(self.home(FIXTURES / "kimi-code")))
        batches = {item.session_id: read_usage(item, 0) for item in found}
        assert not [skip for batch in batches.values() for skip in batch.skipped]
        migrated = [batch for session, batch in batches.items() if session.startswith("ses_")]
        assert [(batch.events, batch.actions) for batch in migrated] == [([], [])]
        assert [item.parent_id for item in found if item.parent_id] == ["session_bd31fefe-b73e-4e68-9d14-4dcfd1e7cc56"]

    def test_real_forks_subagents_and_interrupted_turns_are_billed_by_message(self) -> None:
        home = FIXTURES / "kimi-code-usage"
        batches = [read_usage(item, 0) for item in list_usage_sources(self.home(home))]
        truth: dict[str, int] = {}
        for path in home.rglob("wire.jsonl"):
            for line in path.read_text().splitlines():
                step = json.loads(line).get("event", {})
                if step.get("type") == "step.end" and "messageId" in step:
                    truth[step["messageId"]] = sum(step["usage"].values())
        assert sum(len(batch.events) for batch in batches) > len(truth), "forks repeat records"
        assert len(billed(*batches)) == len(truth)
        assert total(*batches).total == sum(truth.values())
        assert {one.model for one in billed(*batches).values()} == {"fake-model"}
        assert [item.kind for batch in batches for item in batch.unrecorded] == ["interrupted turn"] * 2
