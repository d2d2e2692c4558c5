"""kimi-cli: what its tree says, however odd, which processes are it, and when a resume would wipe history."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

import msgspec
import pytest

from corral import sidecar
from corral.model.claim import BadClaim, Claim
from corral.model.key import Home
from corral.model.process import ProcessMode
from corral.model.record import SessionRecord, Skipped, TurnState
from corral.model.restore import Program, Refusal
from corral.providers import Environment, Provider, kimi_cli
from corral.system.processes import ProcessTable
from tests.providers.evidence import all_claims
from tests.providers.kimi_support import (
    ODD_LINES,
    Memory,
    copy_fixture,
    install_npm,
    install_python,
    picture,
    settle,
)

BUCKET = "a4d2cd2663893c14bb5cfde43ebe3eb3"
WORK_DIR = "/home/dev/projects/app"
NORMAL = "a0000001-0000-4000-8000-000000000001"
KILLED = "a0000003-0000-4000-8000-000000000003"
FORK = "7e15d1fd-f4f8-481e-b39a-19447678fe11"
LONG = "210c47d0-1a16-4305-a246-abbd19230f41"
SYSTEM_LINE = b'{"role": "_system_prompt", "content": "p"}\n{"role": "_checkpoint", "id": 0}\n'
USER_LINE = b'{"role": "user", "content": "hello"}\n'

provider: Provider = kimi_cli  # pyright checks the module against the Protocol


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copy_fixture("kimi-cli", tmp_path / "dot-kimi")


@pytest.fixture
def bucket(tree: Path) -> Path:
    return tree / "sessions" / BUCKET


def home_at(path: Path, is_default: bool = False) -> Home:
    return Home(provider="kimi-cli", path=str(path), is_default=is_default, origin="test")


def listing(tree: Path, memory: Memory | None = None) -> list[SessionRecord | Skipped]:
    before = picture(tree)
    found = list(kimi_cli.list_sessions(home_at(tree), memory or Memory()))
    assert picture(tree) == before, "a listing never writes"
    return found


def sessions(tree: Path) -> dict[str, SessionRecord]:
    return {item.session_id: item for item in listing(tree) if isinstance(item, SessionRecord)}


def skipped(tree: Path) -> dict[str, str]:
    return {Path(item.path).name: item.reason for item in listing(tree) if isinstance(item, Skipped)}


def wire_line(kind: str, seconds: float = 1794772342.0, **payload: object) -> bytes:
    return json.dumps({"timestamp": seconds, "message": {"type": kind, "payload": payload}}).encode() + b"\n"


def make_session(
    bucket: Path, session_id: str, wire: bytes | None = None, context: bytes = SYSTEM_LINE + USER_LINE
) -> Path:
    directory = bucket / session_id
    directory.mkdir(parents=True)
    (directory / "context.jsonl").write_bytes(context)
    if wire is not None:
        (directory / "wire.jsonl").write_bytes(wire)
    return directory


class TestRealTrees:
    def test_a_finished_session(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        assert record.key.scope == BUCKET
        assert record.work_dir == WORK_DIR
        assert record.title == "TOOL echo hi"
        assert record.created_at == 1794772342.0305016
        assert (record.durable, record.turn, record.archived) == (True, TurnState.ENDED, False)
        assert record.notes == ()

    def test_a_session_killed_in_a_turn_is_open_and_says_what_was_asked(self, tree: Path) -> None:
        record = sessions(tree)[KILLED]
        assert (record.turn, record.unfinished, record.durable) == (TurnState.OPEN, "SLOW 25", True)
        assert record.turn_started_at == 1794772352.4456918
        assert record.title == "SLOW 25"  # no state.json: the first prompt

    def test_a_fork_has_no_parent_field(self, tree: Path) -> None:
        record = sessions(tree)[FORK]
        assert (record.forked_from, record.title) == (None, "Fork: SAY before resume")

    def test_a_compacted_session_is_durable_and_its_rotated_context_is_no_session(self, tree: Path) -> None:
        found = sessions(tree)
        assert (found[LONG].durable, found[LONG].turn, found[LONG].unfinished) == (
            True,
            TurnState.OPEN,
            "SLOW 30",
        )
        assert len(found) == 5
        assert skipped(tree) == {}


class TestTurns:
    @pytest.mark.parametrize(
        ("tail", "turn"),
        [
            ([], TurnState.NONE),
            ([("TurnBegin", {"user_input": "hi"})], TurnState.OPEN),
            ([("TurnBegin", {"user_input": "hi"}), ("TurnEnd", {})], TurnState.ENDED),
            ([("TurnBegin", {"user_input": "hi"}), ("ToolCall", {"id": "c1"})], TurnState.IN_TOOL),
            (
                [("TurnBegin", {}), ("ToolCall", {"id": "c1"}), ("ToolResult", {"tool_call_id": "c1"})],
                TurnState.OPEN,
            ),
            ([("TurnBegin", {}), ("TurnEnd", {}), ("ToolResult", {"tool_call_id": "late"})], TurnState.ENDED),
            ([("TurnBegin", {}), ("TurnEnd", {}), ("StatusUpdate", {})], TurnState.ENDED),
            (
                [("TurnBegin", {}), ("SubagentEvent", {"event": {"type": "TurnEnd", "payload": {}}})],
                TurnState.OPEN,
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


class TestOddShapes:
    def test_only_a_system_prompt_is_never_prompted(self, bucket: Path) -> None:
        make_session(bucket, "empty", context=SYSTEM_LINE * 500)
        record = sessions(bucket.parent.parent)["empty"]
        assert (record.durable, record.not_durable_reason, record.turn) == (
            False,
            "never prompted",
            TurnState.NONE,
        )

    def test_a_wiped_history_is_told(self, bucket: Path) -> None:
        make_session(bucket, "wiped", wire_line("TurnBegin", user_input="a") + wire_line("TurnEnd"), SYSTEM_LINE)
        record = sessions(bucket.parent.parent)["wiped"]
        assert not record.durable
        assert "history is gone" in (record.not_durable_reason or "")

    def test_a_missing_context_is_not_durable(self, bucket: Path) -> None:
        (make_session(bucket, "s1", wire_line("TurnEnd")) / "context.jsonl").unlink()
        assert "missing" in (sessions(bucket.parent.parent)["s1"].not_durable_reason or "")

    def test_archived_and_titled(self, bucket: Path) -> None:
        directory = make_session(bucket, "s1")
        (directory / "state.json").write_text('{"custom_title": "My\\ntitle", "archived": true, "new": NaN}')
        record = sessions(bucket.parent.parent)["s1"]
        assert (record.title, record.archived) == ("My title", True)

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"custom_title": 7}', b"\xff", b"x" * (2 << 20)])
    def test_a_bad_state_file_costs_the_title_only(self, bucket: Path, content: bytes) -> None:
        (make_session(bucket, "s1", wire_line("TurnEnd")) / "state.json").write_bytes(content)
        record = sessions(bucket.parent.parent)["s1"]
        assert (record.durable, record.turn, record.title) == (True, TurnState.ENDED, None)
        assert any("state.json" in note for note in record.notes)

    def test_the_same_id_in_two_buckets_is_two_sessions(self, tree: Path) -> None:
        other = md5(b"/home/dev/other").hexdigest()
        make_session(tree / "sessions" / other, NORMAL, context=SYSTEM_LINE)
        both = [item for item in listing(tree) if isinstance(item, SessionRecord) and item.session_id == NORMAL]
        assert {item.scope: item.durable for item in both} == {BUCKET: True, other: False}
        assert all("another bucket" in " ".join(item.notes) for item in both)

    def test_a_bucket_that_kimi_json_does_not_list(self, tree: Path) -> None:
        make_session(tree / "sessions" / md5(b"/home/dev/other").hexdigest(), "s1")
        record = sessions(tree)["s1"]
        assert record.work_dir is None
        assert "no longer lists" in record.notes[0]

    def test_a_bucket_on_another_machine(self, tree: Path) -> None:
        digest = md5(b"/srv/app").hexdigest()
        (tree / "kimi.json").write_text('{"work_dirs": [{"path": "/srv/app", "kaos": "ssh"}]}')
        make_session(tree / "sessions" / f"ssh_{digest}", "far")
        record = sessions(tree)["far"]
        assert record.work_dir is None
        assert "another machine" in record.notes[0]
        refused = kimi_cli.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.RESTORE_UNSUPPORTED

    def test_a_legacy_single_file_is_a_session(self, tree: Path, bucket: Path) -> None:
        (bucket / "old.jsonl").write_bytes(SYSTEM_LINE + USER_LINE)
        record = sessions(tree)["old"]
        assert (record.durable, record.work_dir, record.turn) == (True, WORK_DIR, TurnState.NONE)
        assert kimi_cli.transcript_path(record) == str(bucket / "old.jsonl")
        assert kimi_cli.read_guard(record) is None

    def test_a_legacy_file_beside_a_directory(self, tree: Path, bucket: Path) -> None:
        (bucket / "old.jsonl").write_bytes(SYSTEM_LINE + USER_LINE)
        (bucket / "old").mkdir()
        record = sessions(tree)["old"]
        assert record.durable
        assert kimi_cli.transcript_path(record) == str(bucket / "old.jsonl")
        make = bucket / "old" / "context.jsonl"
        make.write_bytes(SYSTEM_LINE)
        record = sessions(tree)["old"]
        assert not record.durable
        assert kimi_cli.transcript_path(record) == str(make)

    def test_strays_are_told_and_are_no_sessions(self, tree: Path, bucket: Path) -> None:
        make_session(tree / "sessions", "x-traversal")
        (tree / "sessions" / "note.txt").write_text("")
        (tree / "sessions" / ("b" * 32)).symlink_to(bucket)
        (bucket / "linked").symlink_to(bucket / NORMAL)
        (bucket / "-rf").mkdir()
        (bucket / "a b").mkdir()
        (bucket / "notes.md").write_text("")
        os.mkfifo(bucket / "pipe.jsonl")
        assert set(skipped(tree)) == {
            "x-traversal", "note.txt", "b" * 32, "linked", "-rf", "a b", "notes.md", "pipe.jsonl"
        }  # fmt: skip
        assert len(sessions(tree)) == 5

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"work_dirs": 1}', b'{"work_dirs": [{}]}'])
    def test_a_bad_kimi_json_loses_directories_not_sessions(self, tree: Path, content: bytes) -> None:
        (tree / "kimi.json").write_bytes(content)
        assert "kimi.json" in skipped(tree)
        record = sessions(tree)[NORMAL]
        assert record.work_dir is None
        refused = kimi_cli.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_UNREGISTERED

    @pytest.mark.parametrize("name", ["wire.jsonl", "context.jsonl", "state.json"])
    @pytest.mark.parametrize("kind", ["fifo", "link", "dangling", "directory", "denied"])
    def test_no_regular_file_never_blocks_and_never_crashes(self, bucket: Path, name: str, kind: str) -> None:
        path = bucket / NORMAL / name
        target = bucket / FORK / name
        path.unlink()
        match kind:
            case "fifo":
                os.mkfifo(path)
            case "link":
                path.symlink_to(target)
            case "dangling":
                path.symlink_to("nowhere")
            case "directory":
                path.mkdir()
            case _:
                path.write_text("{}")
                path.chmod(0)
        record = sessions(bucket.parent.parent)[NORMAL]
        if kind == "denied" and os.getuid() == 0:
            return
        if name == "wire.jsonl":
            assert record.turn is TurnState.UNREADABLE
        elif name == "context.jsonl":
            assert not record.durable
        else:
            assert any("state.json" in note for note in record.notes)

    def test_a_home_that_is_not_there_is_empty(self, tmp_path: Path) -> None:
        assert list(kimi_cli.list_sessions(home_at(tmp_path / "none"), Memory())) == []
        assert all_claims(kimi_cli, home_at(tmp_path / "none")) == []


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
        began = time.monotonic()
        record = sessions(tree)["s1"]
        assert time.monotonic() - began < 5
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


class TestKnown:
    def test_a_second_listing_reads_nothing_and_says_the_same(self, tree: Path) -> None:
        settle(tree)
        memory = Memory()
        first = listing(tree, memory)
        assert (memory.missed, len(memory.kept)) == (5, 5)
        assert listing(tree, memory) == first
        assert memory.missed == 5

    def test_what_changed_is_read_again(self, tree: Path, bucket: Path) -> None:
        settle(tree)
        memory = Memory()
        listing(tree, memory)
        with (bucket / NORMAL / "wire.jsonl").open("ab") as file:
            file.write(wire_line("TurnBegin", user_input="more"))
        (bucket / FORK / "new.tmp").write_text('{"custom_title": "renamed"}')
        (bucket / FORK / "new.tmp").rename(bucket / FORK / "state.json")
        found = {item.session_id: item for item in listing(tree, memory) if isinstance(item, SessionRecord)}
        assert memory.missed == 7
        assert found[NORMAL].unfinished == "more"
        assert found[FORK].title == "renamed"

    def test_a_lost_entry_in_kimi_json_is_noticed(self, tree: Path) -> None:
        settle(tree)
        memory = Memory()
        listing(tree, memory)
        (tree / "kimi.json").write_text('{"work_dirs": []}')
        assert all(item.work_dir is None for item in listing(tree, memory) if isinstance(item, SessionRecord))

    def test_what_was_just_written_is_not_kept(self, tree: Path, bucket: Path) -> None:
        settle(tree)
        future = time.time() + 5
        os.utime(bucket / NORMAL / "wire.jsonl", (future, future))
        memory = Memory()
        listing(tree, memory)
        assert str(bucket / NORMAL) not in memory.kept


class TestClaims:
    def claims(self, tree: Path) -> list[Claim | BadClaim]:
        return all_claims(kimi_cli, home_at(tree))

    def test_a_background_task_is_no_claim(self, tree: Path, bucket: Path) -> None:
        assert (bucket / NORMAL / "tasks" / "bash-ukld8aqj" / "runtime.json").is_file()
        assert self.claims(tree) == []

    def test_a_runtime_file_is_a_claim(self, tree: Path, bucket: Path) -> None:
        sidecar.write(str(bucket / NORMAL), session_id=NORMAL, work_dir=WORK_DIR, cli="kimi", version="1.51.0")
        (claim,) = self.claims(tree)
        assert isinstance(claim, Claim)
        assert (claim.pid, claim.session_id, claim.scope) == (os.getpid(), NORMAL, BUCKET)
        assert (claim.version, claim.owner_uid) == ("1.51.0", os.getuid())

    def test_a_file_that_names_another_session_is_shown_not_believed(self, tree: Path, bucket: Path) -> None:
        sidecar.write(str(bucket / NORMAL), session_id=FORK, work_dir=WORK_DIR, cli="kimi", version="1.51.0")
        (claim,) = self.claims(tree)
        assert isinstance(claim, BadClaim)
        assert FORK in claim.reason

    @pytest.mark.parametrize("kind", ["torn", "fifo", "link", "directory"])
    def test_a_bad_file_is_shown(self, tree: Path, bucket: Path, kind: str) -> None:
        path = bucket / NORMAL / "runtime.json"
        match kind:
            case "torn":
                path.write_text('{"schema_version": 1, "pid"')
            case "fifo":
                os.mkfifo(path)
            case "link":
                path.symlink_to("nowhere")
            case _:
                path.mkdir()
        (claim,) = self.claims(tree)
        assert isinstance(claim, BadClaim)
        assert (claim.session_id, claim.scope) == (NORMAL, BUCKET)


class TestRestore:
    def test_a_sound_session_may_be_resumed(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        assert kimi_cli.read_guard(record) is None
        program = Program(provider="kimi-cli", path="/opt/bin/kimi", version="1.51.0")
        plan = kimi_cli.plan_resume(record, program, home_at(tree))
        assert plan.argv == ("/opt/bin/kimi", "-w", WORK_DIR, "--session", NORMAL)
        assert plan.cwd == WORK_DIR
        assert plan.env == {"KIMI_SHARE_DIR": str(tree)}
        assert kimi_cli.plan_resume(record, program, home_at(tree, is_default=True)).env == {}

    def test_an_unlisted_directory_is_refused_with_the_way_out(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        (tree / "kimi.json").write_text('{"work_dirs": [{"path": "/home/dev/projects/app/"}]}')
        refused = kimi_cli.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_UNREGISTERED
        assert refused.remedy == (
            f"KIMI_SHARE_DIR={tree} kimi -w {WORK_DIR}",
            "leave with /quit",
            f"corral resume {NORMAL}",
        )

    def test_a_missing_kimi_json_lists_nothing(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        (tree / "kimi.json").unlink()
        refused = kimi_cli.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_UNREGISTERED

    def test_a_missing_context_is_refused(self, tree: Path, bucket: Path) -> None:
        record = sessions(tree)[NORMAL]
        (bucket / NORMAL / "context.jsonl").unlink()
        refused = kimi_cli.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.TRANSCRIPT_MISSING

    def test_a_directory_of_another_spelling_is_refused(self, tree: Path) -> None:
        # A process reports its directory with links resolved; the bucket is of the one it was given.
        (tree / "kimi.json").write_text(json.dumps({"work_dirs": [{"path": WORK_DIR}, {"path": "/mnt/real/app"}]}))
        record = msgspec.structs.replace(sessions(tree)[NORMAL], work_dir="/mnt/real/app")
        refused = kimi_cli.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_UNREGISTERED


class TestHomes:
    def env(self, home: Path, variables: dict[str, str], *extra: str) -> Environment:
        return Environment(home_dir=str(home), variables=variables, extra_homes={"kimi-cli": extra})

    def test_the_default_home(self, tmp_path: Path) -> None:
        (home,) = kimi_cli.homes(self.env(tmp_path, {}))
        assert (home.path, home.is_default, home.origin) == (f"{tmp_path}/.kimi", True, "default")

    def test_the_variable_comes_first_and_the_default_stays_if_it_exists(self, tmp_path: Path) -> None:
        env = self.env(tmp_path, {"KIMI_SHARE_DIR": f"{tmp_path}/other"})
        assert [home.path for home in kimi_cli.homes(env)] == [f"{tmp_path}/other"]
        (tmp_path / ".kimi").mkdir()
        assert [home.origin for home in kimi_cli.homes(env)] == ["KIMI_SHARE_DIR", "default"]

    def test_one_directory_by_two_names_is_one_home(self, tmp_path: Path) -> None:
        (tmp_path / ".kimi").mkdir()
        (tmp_path / "link").symlink_to(".kimi")
        env = self.env(tmp_path, {"KIMI_SHARE_DIR": f"{tmp_path}/link"}, f"{tmp_path}/.kimi", f"{tmp_path}/more")
        found = kimi_cli.homes(env)
        assert [(home.path, home.is_default) for home in found] == [
            (f"{tmp_path}/link", True),
            (f"{tmp_path}/more", False),
        ]


class TestProgram:
    def env(self, *directories: Path, programs: dict[str, str] | None = None) -> Environment:
        path = os.pathsep.join(str(directory) for directory in directories)
        return Environment(home_dir="/nowhere", variables={"PATH": path}, extra_homes={}, programs=programs or {})

    def test_kimi_cli_is_told_from_kimi_code(self, tmp_path: Path) -> None:
        code = install_npm(tmp_path / "npm", "@moonshot-ai/kimi-code", "2.1.0")
        cli = install_python(tmp_path / "venv", "1.51.0")
        found = kimi_cli.find_program(self.env(code.parent, cli.parent))
        assert found == Program(provider="kimi-cli", path=str(cli), version="1.51.0")
        assert kimi_cli.find_program(self.env(code.parent)) is None

    def test_the_tombstone_is_found_and_has_a_problem(self, tmp_path: Path) -> None:
        dead = install_python(tmp_path / "dead", "1.52.0")
        found = kimi_cli.find_program(self.env(dead.parent))
        assert found is not None
        assert "1.51.0 is the last" in (found.problem or "")

    def test_a_working_one_later_on_path_is_preferred_to_the_tombstone(self, tmp_path: Path) -> None:
        dead = install_python(tmp_path / "dead", "1.52.0")
        kept = install_python(tmp_path / "kept", "1.51.0", command="kimi-legacy")
        found = kimi_cli.find_program(self.env(dead.parent, kept.parent))
        assert found == Program(provider="kimi-cli", path=str(kept), version="1.51.0")

    def test_a_pipx_link_and_a_configured_program(self, tmp_path: Path) -> None:
        script = install_python(tmp_path / "venvs" / "kimi-cli", "1.51.0")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "kimi").symlink_to(script)
        found = kimi_cli.find_program(self.env(tmp_path / "bin"))
        assert found is not None
        assert (found.path, found.version) == (str(tmp_path / "bin" / "kimi"), "1.51.0")
        chosen = kimi_cli.find_program(self.env(programs={"kimi-cli": str(script)}))
        assert chosen is not None
        assert chosen.path == str(script)

    def test_a_script_of_ones_own_is_passed_over(self, tmp_path: Path) -> None:
        own = tmp_path / "kimi"
        own.write_text('#!/bin/sh\nexec /opt/kimi/bin/kimi "$@"\n')
        own.chmod(0o755)
        assert kimi_cli.find_program(self.env(tmp_path)) is None


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


class TestProcesses:
    """Real processes that look like kimi-cli from outside; the real one is met in the contract tests."""

    def start(self, running: list[subprocess.Popen[bytes]], *argv: str, **env: str) -> int:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | env)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    def recognise(self, pid: int):
        table = ProcessTable()
        process = table.find(pid)
        assert process is not None
        return kimi_cli.recognise(process, table)

    def script(self, path: Path, body: str = "") -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import sys\n{body}\nprint('ready', flush=True)\nsys.stdin.read()\n")
        return str(path)

    def test_python_that_runs_the_kimi_script(self, tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
        log = tmp_path / "share" / "logs" / "kimi.log"
        log.parent.mkdir(parents=True)
        script = self.script(tmp_path / "bin" / "kimi", f"log = open({str(log)!r}, 'w')")
        pid = self.start(running, sys.executable, script, "--print")
        found = self.recognise(pid)
        assert found is not None
        assert (found.identity.pid, found.home, found.group) == (pid, str(tmp_path / "share"), pid)
        assert found.mode is ProcessMode.HEADLESS

    def test_the_home_of_one_that_is_starting(self, tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
        script = self.script(tmp_path / "bin" / "kimi")
        pid = self.start(running, sys.executable, script, KIMI_SHARE_DIR="/somewhere/share")
        found = self.recognise(pid)
        assert found is not None
        assert found.home == "/somewhere/share"

    def test_what_merely_has_the_name_is_not_recognised(
        self, tmp_path: Path, running: list[subprocess.Popen[bytes]]
    ) -> None:
        other = self.script(tmp_path / "kimi-cli" / "other.py")
        assert self.recognise(self.start(running, sys.executable, other, "/usr/bin/kimi")) is None
        worker = self.script(tmp_path / "bin" / "kimi")
        assert self.recognise(self.start(running, sys.executable, worker, "__background-task-worker")) is None
        shell = shutil.which("sh")
        assert shell is not None
        titled = tmp_path / "Kimi Code"
        titled.write_text("#!/bin/sh\necho ready\nread line\n")
        titled.chmod(0o755)
        assert self.recognise(self.start(running, str(titled))) is None

    def test_no_process_of_this_machine_breaks_it(self) -> None:
        table = ProcessTable()
        for process in table:
            kimi_cli.recognise(process, table)
