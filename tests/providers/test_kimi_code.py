"""kimi-code: what its tree says, however odd, which processes are it, and how a session is resumed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from corral import sidecar
from corral.model.claim import BadClaim, Claim
from corral.model.key import Home
from corral.model.record import SessionRecord, Skipped, TurnState
from corral.model.restore import Program, Refusal
from corral.providers import Environment, Provider, kimi_code
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
from tests.providers.node import find_node

BUCKET = "wd_app_b6c1126a8611"
WORK_DIR = "/home/dev/projects/app"
NORMAL = "session_bd47c1dc-f13d-4842-94c6-e43bccf641a5"
KILLED = "session_b5d16c74-8cdd-4afc-a622-17bf0a036863"
PARENT = "session_bd31fefe-b73e-4e68-9d14-4dcfd1e7cc56"
FORK = "session_e95b18ba-4b11-401d-8cc4-ec5fb430156f"
LONG = "session_8cb71ee6-732f-4bb5-882a-d6c940c0ef0b"
MIGRATED = "ses_a0000001-0000-4000-8000-000000000001"

provider: Provider = kimi_code  # pyright checks the module against the Protocol


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copy_fixture("kimi-code", tmp_path / "dot-kimi-code")


@pytest.fixture
def bucket(tree: Path) -> Path:
    return tree / "sessions" / BUCKET


def home_at(path: Path, is_default: bool = False) -> Home:
    return Home(provider="kimi-code", path=str(path), is_default=is_default, origin="test")


def listing(tree: Path, memory: Memory | None = None) -> list[SessionRecord | Skipped]:
    before = picture(tree)
    found = list(kimi_code.list_sessions(home_at(tree), memory or Memory()))
    assert picture(tree) == before, "a listing never writes"
    return found


def sessions(tree: Path) -> dict[str, SessionRecord]:
    return {item.session_id: item for item in listing(tree) if isinstance(item, SessionRecord)}


def skipped(tree: Path) -> set[str]:
    return {Path(item.path).name for item in listing(tree) if isinstance(item, Skipped)}


def event(kind: str, /, **fields: object) -> bytes:
    return json.dumps({"type": kind, "agentId": "main", "time": 1794771915758, **fields}).encode() + b"\n"


def make_session(bucket: Path, session_id: str, wire: bytes, **state: object) -> Path:
    directory = bucket / session_id
    (directory / "agents" / "main").mkdir(parents=True)
    (directory / "state.json").write_text(json.dumps({"id": session_id, "cwd": WORK_DIR, **state}))
    (directory / "agents" / "main" / "wire.jsonl").write_bytes(wire)
    return directory


def prompt(text: str, turn: object = 0) -> bytes:
    return event("turn.prompt", turnId=turn, input=[{"type": "text", "text": text}])


class TestRealTrees:
    def test_a_finished_session(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        assert (record.scope, record.work_dir) == (BUCKET, WORK_DIR)
        assert (record.created_at, record.updated_at) == (1794772369.456, 1794772369.709)
        assert record.title == "TOOL echo hi"  # `-p` gives no title: the first prompt
        assert (record.durable, record.turn, record.notes) == (True, TurnState.ENDED, ())

    def test_a_session_killed_in_a_turn(self, tree: Path) -> None:
        record = sessions(tree)[KILLED]
        assert (record.turn, record.unfinished, record.durable) == (TurnState.OPEN, "SLOW 25", True)

    def test_a_fork_names_its_parent(self, tree: Path) -> None:
        found = sessions(tree)
        assert (found[FORK].forked_from, found[PARENT].forked_from) == (PARENT, None)

    def test_cancelled_turns_undo_approval_and_question_before_a_kill(self, tree: Path) -> None:
        record = sessions(tree)[LONG]
        assert (record.turn, record.unfinished, record.waits_for) == (TurnState.OPEN, "SLOW 30", None)

    def test_a_migrated_session_has_prompts_without_turn_and_names_its_origin(self, tree: Path) -> None:
        record = sessions(tree)[MIGRATED]
        assert (record.turn, record.durable) == (TurnState.ENDED, True)
        assert record.notes == ("migrated from kimi-cli session a0000001-0000-4000-8000-000000000001",)

    def test_every_prefix_of_a_long_log_has_an_answer(self, tree: Path, bucket: Path) -> None:
        path = bucket / LONG / "agents" / "main" / "wire.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        waited: set[str | None] = set()
        for count in range(len(lines)):
            path.write_bytes(b"".join(lines[:count]))
            record = next(
                item
                for item in kimi_code.list_sessions(home_at(tree), Memory())
                if isinstance(item, SessionRecord) and item.session_id == LONG
            )
            assert record.turn is not TurnState.UNREADABLE
            waited.add(record.waits_for)
        assert waited == {
            None,
            "approval: Bash env | sort > /home/dev/childenvts.txt; sleep 3; echo done-$PPID",
            "Which colour?",
        }


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
            (
                prompt("a") + event("interaction.request", id="i", kind="approval", request={}),
                TurnState.WAITING,
            ),
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


class TestOddShapes:
    def test_archived(self, tree: Path, bucket: Path) -> None:
        make_session(bucket, "session_1", prompt("a"), archived=True, title="T\tt")
        record = sessions(tree)["session_1"]
        assert (record.archived, record.title) == (True, "T t")

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b'{"id":7}',
            b'{"id":"session_1"}',
            b'{"id":"session_1","cwd":"relative"}',
            b"\xff",
        ],
    )
    def test_a_bad_state_file_is_not_durable_as_kimi_code_does_not_find_it(
        self, tree: Path, bucket: Path, content: bytes
    ) -> None:
        directory = make_session(bucket, "session_1", prompt("a"))
        (directory / "state.json").write_bytes(content)
        record = sessions(tree)["session_1"]
        assert (record.durable, record.work_dir, record.turn) == (False, None, TurnState.OPEN)
        refused = kimi_code.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.TRANSCRIPT_MISSING

    def test_odd_times_are_left_out(self, tree: Path, bucket: Path) -> None:
        directory = make_session(bucket, "session_1", b"")
        for odd in ("NaN", "18446744073709551616", '"yesterday"', "true", "-5", "null"):
            (directory / "state.json").write_text(
                f'{{"id":"session_1","cwd":"{WORK_DIR}","createdAt":{odd},"title":"\\ud800 x"}}'
            )
            record = sessions(tree)["session_1"]
            assert (record.durable, record.created_at, record.title) == (True, None, "x")
            msgspec.json.encode(record)

    def test_a_state_that_names_another_session(self, tree: Path, bucket: Path) -> None:
        shutil.copytree(bucket / NORMAL, bucket / "session_copy")
        record = sessions(tree)["session_copy"]
        assert (record.durable, record.not_durable_reason) == (False, "state.json names another session")
        refused = kimi_code.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.IDENTITY_INVALID

    def test_a_missing_log_is_not_durable(self, tree: Path, bucket: Path) -> None:
        (bucket / NORMAL / "agents" / "main" / "wire.jsonl").unlink()
        record = sessions(tree)[NORMAL]
        assert (record.durable, record.turn) == (False, TurnState.NONE)

    def test_the_same_id_in_two_buckets_is_two_sessions(self, tree: Path) -> None:
        make_session(tree / "sessions" / "wd_other_000000000000", NORMAL, prompt("a"))
        found = [item for item in listing(tree) if isinstance(item, SessionRecord)]
        both = [item for item in found if item.session_id == NORMAL]
        assert {item.scope for item in both} == {BUCKET, "wd_other_000000000000"}
        assert all("another bucket" in item.notes[0] for item in both)

    def test_strays_are_told_and_derived_directories_are_not(self, tree: Path, bucket: Path) -> None:
        root = tree / "sessions"
        for derived in (".index-dirty", ".index-cache"):
            (root / derived).mkdir()
        (root / "x-traversal").mkdir()
        (root / "wd_link").symlink_to(bucket)
        (root / "file").write_text("")
        (bucket / "session_link").symlink_to(bucket / NORMAL)
        (bucket / "session_a b").mkdir()
        (bucket / "other").mkdir()
        (bucket / "state.json").write_text("")
        assert skipped(tree) == {
            "x-traversal", "wd_link", "file", "session_link", "session_a b", "other", "state.json"
        }  # fmt: skip
        assert len(sessions(tree)) == 6

    @pytest.mark.parametrize("name", ["state.json", "agents/main/wire.jsonl"])
    @pytest.mark.parametrize("kind", ["fifo", "link", "directory"])
    def test_no_regular_file_never_blocks(self, tree: Path, bucket: Path, name: str, kind: str) -> None:
        path = bucket / NORMAL / name
        path.unlink()
        match kind:
            case "fifo":
                os.mkfifo(path)
            case "link":
                path.symlink_to(bucket / PARENT / name)
            case _:
                path.mkdir()
        record = sessions(tree)[NORMAL]
        assert not record.durable
        if name != "state.json":
            assert record.turn is TurnState.UNREADABLE

    def test_a_home_that_is_not_there_is_empty(self, tmp_path: Path) -> None:
        assert list(kimi_code.list_sessions(home_at(tmp_path / "none"), Memory())) == []
        assert all_claims(kimi_code, home_at(tmp_path / "none")) == []


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
        began = time.monotonic()
        record = sessions(tree)["session_1"]
        assert time.monotonic() - began < 5
        assert record.turn is TurnState.UNREADABLE
        with wire.open("ab") as file:
            file.write(b'"}\n' + event("context.append_loop_event", event={"type": "step.begin"}))
        assert sessions(tree)["session_1"].turn is TurnState.OPEN
        with wire.open("ab") as file:
            file.write(event("turn.ended", turnId=0))
        assert sessions(tree)["session_1"].turn is TurnState.ENDED


class TestKnown:
    def test_a_second_listing_reads_nothing_and_a_change_is_read(self, tree: Path, bucket: Path) -> None:
        settle(tree)
        memory = Memory()
        first = listing(tree, memory)
        assert (memory.missed, len(memory.kept)) == (6, 6)
        assert listing(tree, memory) == first
        assert memory.missed == 6
        # As kimi-code writes it: a new file in the place of the old one.
        (bucket / NORMAL / "state.json.tmp").write_text(json.dumps({"id": NORMAL, "cwd": "/elsewhere"}))
        (bucket / NORMAL / "state.json.tmp").rename(bucket / NORMAL / "state.json")
        found = {item.session_id: item for item in listing(tree, memory) if isinstance(item, SessionRecord)}
        assert (memory.missed, found[NORMAL].work_dir) == (7, "/elsewhere")


class TestClaims:
    def test_a_runtime_file_is_a_claim_only_for_its_own_session(self, tree: Path, bucket: Path) -> None:
        assert all_claims(kimi_code, home_at(tree)) == []
        for directory in (NORMAL, PARENT):
            where = str(bucket / directory)
            sidecar.write(where, session_id=NORMAL, work_dir=WORK_DIR, cli="kimi", version="2.1.0")
        found = {Path(item.path).parent.name: item for item in all_claims(kimi_code, home_at(tree))}
        claim = found[NORMAL]
        assert isinstance(claim, Claim)
        assert (claim.pid, claim.scope, claim.version) == (os.getpid(), BUCKET, "2.1.0")
        assert isinstance(found[PARENT], BadClaim)


class TestRestore:
    def test_it_is_resumed_in_its_own_directory(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        assert kimi_code.read_guard(record) is None
        program = Program(provider="kimi-code", path="/opt/bin/kimi", version="2.1.0")
        plan = kimi_code.plan_resume(record, program, home_at(tree))
        assert (plan.argv, plan.cwd) == (("/opt/bin/kimi", "-r", NORMAL), WORK_DIR)
        assert plan.env == {"KIMI_CODE_HOME": str(tree)}
        assert kimi_code.plan_resume(record, program, home_at(tree, is_default=True)).env == {}
        assert Path(kimi_code.transcript_path(record)).is_file()

    def test_another_directory_than_the_recorded_one_is_refused(self, tree: Path) -> None:
        record = msgspec.structs.replace(sessions(tree)[NORMAL], work_dir="/mnt/real/app")
        refused = kimi_code.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_MISSING


class TestProgram:
    def test_kimi_code_is_told_from_kimi_cli(self, tmp_path: Path) -> None:
        cli = install_python(tmp_path / "venv", "1.52.0")
        code = install_npm(tmp_path / "npm", "@moonshot-ai/kimi-code", "2.1.0")
        path = f"{cli.parent}:{code.parent}"
        env = Environment(home_dir=str(tmp_path), variables={"PATH": path}, extra_homes={})
        found = kimi_code.find_program(env)
        assert found == Program(provider="kimi-code", path=str(code), version="2.1.0")

    def test_homes(self, tmp_path: Path) -> None:
        variables = {"KIMI_CODE_HOME": f"{tmp_path}/code"}
        env = Environment(home_dir=str(tmp_path), variables=variables, extra_homes={})
        assert [(home.path, home.is_default) for home in kimi_code.homes(env)] == [(f"{tmp_path}/code", False)]


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


class TestProcesses:
    """Real node processes that look like kimi-code; the real one is met in the contract tests."""

    def start(self, running: list[subprocess.Popen[bytes]], script: Path, body: str, *words: str) -> int:
        node = str(find_node())
        script.write_text(f"{body}\nconsole.log('ready'); setInterval(() => {{}}, 1000)\n")
        env = {"PATH": os.environ["PATH"], "HOME": "/somewhere", "KIMI_CODE_HOME": "/somewhere/else"}
        process = subprocess.Popen([node, str(script), *words], stdout=subprocess.PIPE, env=env)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    def recognise(self, pid: int):
        table = ProcessTable()
        process = table.find(pid)
        assert process is not None
        return kimi_code.recognise(process, table)

    def test_before_and_after_the_title(self, tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
        link = install_npm(tmp_path, "@moonshot-ai/kimi-code", "2.1.0")
        pid = self.start(running, link, "", "-p", "hello")
        found = self.recognise(pid)
        assert found is not None
        assert (found.home, found.version, found.mode) == ("/somewhere/else", "2.1.0", "headless")
        pid = self.start(running, link, "process.title = 'kimi-code'")
        found = self.recognise(pid)
        assert found is not None
        assert (found.home, found.group, found.identity.pid) == ("/somewhere/else", pid, pid)

    def test_other_node_programs_are_not_it(self, tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
        link = install_npm(tmp_path, "@someone/kimi", "2.1.0")
        assert self.recognise(self.start(running, link, "")) is None
        assert self.recognise(self.start(running, link, "process.title = 'kimi-code-worker'")) is None
        real = install_npm(tmp_path / "b", "@moonshot-ai/kimi-code", "2.1.0").resolve()
        assert self.recognise(self.start(running, real.with_name("search-worker.mjs"), "")) is None
