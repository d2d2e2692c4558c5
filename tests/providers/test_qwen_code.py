"""Facts about the Qwen Code provider: sessions, claims, processes, resumes, from real files and odd ones."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.claim import BadClaim, Claim, ClaimKind
from corral.model.key import Home
from corral.model.process import ProcessMode, Recognised
from corral.model.record import SessionRecord, Skipped, TurnState
from corral.model.restore import Program, Refusal
from corral.providers import Environment, qwen_code
from corral.providers.qwen_code.places import encode_project, find_resume_dir
from corral.providers.qwen_code.sessions import DAMAGED, FOREIGN_ID, TOOL_OR_APPROVAL, TWO_WRITERS
from corral.system.processes import ProcessTable
from tests.providers.evidence import all_claims
from tests.providers.node import find_node

FIXTURES = Path(__file__).parent / "fixtures" / "qwen-code" / "home"
CANARY = "CANARY-NOT-A-SECRET"
SCOPE = "-home-dev-projects-app"
TWICE_OPENED = "11111111-1111-4111-8111-111111111111"
CANCELLED = "33333333-3333-4333-8333-333333333333"
KILLED_IN_TOOL = "44444444-4444-4444-8444-444444444445"
WITH_TOOL = "5a5a5a5a-5a5a-4a5a-8a5a-5a5a5a5a5a5a"
FORK = "6ec99149-5ae7-4708-8fbf-9cbeec7623ec"
UNSPOKEN = "1e105a58-0825-48c1-a120-d797664e3381"
NEW_ID = "aaaaaaaa-0000-4000-8000-00000000000a"
BOOT = "00000000-0000-4000-8000-00000000b007"


class Memory:
    """What an earlier survey read, as the store would keep it."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, tuple[int, ...]], SessionRecord] = {}
        self.kept = 0

    def load(self) -> None:
        """Nothing to read."""

    def find_settled(self, directory: str, seal: bytes) -> None:
        """Sessions are asked for one by one here."""

    def settle(self, directory: str, seal: bytes) -> None:
        """The same."""

    def find(self, path: str, fingerprint: tuple[int, ...]) -> SessionRecord | None:
        return self.records.get((path, fingerprint))

    def keep(self, path: str, fingerprint: tuple[int, ...], record: SessionRecord) -> None:
        self.kept += 1
        self.records[path, fingerprint] = record


class Place:
    """A copy of the fixture home that a test may spoil."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(provider=qwen_code.name, path=str(root), is_default=True, origin="default")
        self.chats = root / "projects" / SCOPE / "chats"
        self.registry = root / "sessions"

    def listing(self, memory: Memory | None = None) -> list[SessionRecord | Skipped]:
        return list(qwen_code.list_sessions(self.home, memory or Memory()))

    def records(self) -> dict[str, SessionRecord]:
        return {entry.session_id: entry for entry in self.listing() if isinstance(entry, SessionRecord)}

    def skipped(self) -> dict[str, str]:
        return {Path(entry.path).name: entry.reason for entry in self.listing() if isinstance(entry, Skipped)}

    def claims(self) -> list[Claim | BadClaim]:
        return all_claims(qwen_code, self.home)

    def transcript(self, session_id: str) -> Path:
        return self.chats / f"{session_id}.jsonl"

    def lines(self, session_id: str) -> list[bytes]:
        return self.transcript(session_id).read_bytes().splitlines(keepends=True)

    def write(self, *lines: bytes, session_id: str = NEW_ID) -> SessionRecord:
        self.transcript(session_id).write_bytes(b"".join(lines))
        return self.records()[session_id]

    def register(self, name: str = "4242.json", **changes: Any) -> Claim | BadClaim:
        fields = json.loads((FIXTURES / "sessions" / "4337.json").read_text()) | {"pid": 4242} | changes
        path = self.registry / name
        path.write_text(json.dumps({key: value for key, value in fields.items() if value is not ...}))
        return next(claim for claim in self.claims() if claim.path == str(path))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    shutil.copytree(FIXTURES, tmp_path / ".qwen")
    return Place(tmp_path / ".qwen")


def record(kind: str = "user", text: str | None = "hello", **fields: Any) -> bytes:
    """One line as Qwen writes it."""
    base: dict[str, Any] = {
        "uuid": fields.pop("uuid", "u1"),
        "parentUuid": None,
        "sessionId": NEW_ID,
        "timestamp": "2026-11-15T19:00:00.000Z",
        "type": kind,
        "cwd": "/home/dev/projects/app",
    }
    if text is not None:
        base["message"] = {"role": "model" if kind == "assistant" else "user", "parts": [{"text": text}]}
    return json.dumps(base | fields).encode() + b"\n"


CALL = {"message": {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "run_shell_command"}}]}}


# Sessions


def test_a_session_is_known_by_its_records_not_by_its_project_directory(place: Place) -> None:
    found = place.records()[WITH_TOOL]
    assert (found.scope, found.work_dir) == (SCOPE, "/home/dev/projects/app")
    assert found.title == "RUN:env | grep -c QWEN; go"
    assert found.created_at == pytest.approx(1794771706.938)
    assert found.updated_at == pytest.approx(1794771710.781)
    assert found.durable
    assert found.turn is TurnState.ENDED
    assert found.notes == ()


def test_every_fixture_is_listed_once(place: Place) -> None:
    assert sorted(place.records()) == sorted([TWICE_OPENED, CANCELLED, KILLED_IN_TOOL, WITH_TOOL, FORK, UNSPOKEN])
    assert place.skipped() == {}


def test_a_cancelled_turn_has_ended(place: Place) -> None:
    found = place.write(*place.lines(CANCELLED)[:4])
    assert found.turn is TurnState.ENDED


def test_a_prompt_without_answer_is_an_open_turn(place: Place) -> None:
    lines = place.lines(CANCELLED)[:7]
    found = place.write(*lines)
    assert found.turn is TurnState.OPEN
    assert found.unfinished == "SLOW20 esc meRUN:sleep 100"
    assert found.turn_started_at == pytest.approx(1794770963.5, abs=1)


def test_a_call_without_result_is_open_and_what_it_waits_for_is_not_told(place: Place) -> None:
    found = place.write(*place.lines(KILLED_IN_TOOL)[:4])
    assert (found.turn, found.unfinished) == (TurnState.IN_TOOL, "RUN:python3 /home/dev/bin/nap.py;")
    assert TOOL_OR_APPROVAL in found.notes
    assert found.waits_for is None


def test_a_tool_result_leaves_the_turn_open(place: Place) -> None:
    found = place.write(*place.lines(WITH_TOOL)[:7])
    assert (found.turn, found.unfinished) == (TurnState.OPEN, "RUN:env | grep -c QWEN; go")
    assert TOOL_OR_APPROVAL not in found.notes


def test_a_failed_call_to_the_model_does_not_end_the_turn(place: Place) -> None:
    error = {"subtype": "ui_telemetry", "systemPayload": {"uiEvent": {"event.name": "qwen-code.api_error"}}}
    assert place.write(record(), record("system", None, **error)).turn is TurnState.OPEN


@pytest.mark.parametrize("subtype", ["turn_result", "rewind"])
def test_some_system_records_end_the_turn(place: Place, subtype: str) -> None:
    assert place.write(record(), record("system", None, subtype=subtype)).turn is TurnState.ENDED


def test_a_notification_opens_a_turn_and_is_no_prompt(place: Place) -> None:
    found = place.write(
        record(text="the prompt"),
        record("assistant", "done"),
        record(text="<task-notification>", subtype="notification"),
    )
    assert (found.turn, found.unfinished, found.title) == (TurnState.OPEN, "the prompt", "the prompt")


def test_only_system_records_are_no_turn(place: Place) -> None:
    found = place.write(record("system", None, subtype="session_model"))
    assert (found.turn, found.durable) == (TurnState.NONE, True)


def test_a_fork_names_its_parent(place: Place) -> None:
    found = place.records()[FORK]
    assert found.forked_from == TWICE_OPENED
    assert TWO_WRITERS not in found.notes


def test_two_writers_are_told(place: Place) -> None:
    found = place.records()[TWICE_OPENED]
    assert found.notes == (TWO_WRITERS,)
    assert found.turn is TurnState.ENDED


def test_a_rewind_is_not_a_second_writer(place: Place) -> None:
    found = place.write(
        record(uuid="a"),
        record("assistant", "b", uuid="b", parentUuid="a"),
        record(uuid="c", parentUuid="b"),
        record("system", None, uuid="r", parentUuid="b", subtype="rewind"),
        record(uuid="d", parentUuid="r"),
        record("assistant", "e", uuid="e", parentUuid="d"),
    )
    assert found.notes == ()


def test_the_title_a_person_gave_wins(place: Place) -> None:
    titled = record("system", None, subtype="custom_title", systemPayload={"customTitle": "My\x1b[31m title"})
    assert place.write(record(), record("assistant", "hi"), titled).title == "My [31m title"


def test_the_title_is_what_was_typed_not_what_a_hook_added(place: Place) -> None:
    shown = record(text="typed\n\nadded by a hook", systemPayload={"displayText": "typed"})
    assert place.write(shown).title == "typed"


@pytest.mark.parametrize(
    ("text", "title"), [("/approval-mode default", "next"), ("/srv/app is slow", "/srv/app is slow")]
)
def test_a_slash_command_is_no_title_and_a_path_is(place: Place, text: str, title: str) -> None:
    assert place.write(record(text=text), record(text="next")).title == title


def test_an_empty_file_is_not_durable(place: Place) -> None:
    found = place.write(b"")
    assert (found.durable, found.not_durable_reason, found.turn) == (
        False,
        "its transcript is empty",
        TurnState.NONE,
    )


def test_a_session_that_was_never_prompted_is_listed_as_not_durable(place: Place) -> None:
    found = place.records()[UNSPOKEN]
    assert (found.durable, found.turn, found.work_dir) == (False, TurnState.NONE, "/home/dev/projects/app")
    assert not os.path.exists(qwen_code.transcript_path(found))


def test_nothing_but_garbage_is_not_durable(place: Place) -> None:
    found = place.write(b"garbage\n", b"\x00\xff\n")
    assert (found.durable, found.turn) == (False, TurnState.UNREADABLE)
    assert DAMAGED in found.notes


def test_archived_sessions_are_listed_as_such(place: Place) -> None:
    (place.chats / "archive").mkdir()
    place.transcript(FORK).rename(place.chats / "archive" / f"{FORK}.jsonl")
    found = place.records()[FORK]
    assert found.archived
    refused = qwen_code.read_guard(found)
    assert refused is not None
    assert refused.reason is Refusal.RESTORE_UNSUPPORTED


def test_a_session_both_active_and_archived_is_listed_once(place: Place) -> None:
    (place.chats / "archive").mkdir()
    shutil.copy(place.transcript(FORK), place.chats / "archive")
    assert [entry.key for entry in place.listing() if isinstance(entry, SessionRecord)].count(
        place.records()[FORK].key
    ) == 1
    assert f"{FORK}.jsonl" in place.skipped()


def test_names_that_are_no_ids_are_told_and_ledgers_are_not(place: Place) -> None:
    for name in ("notes.jsonl", f"{FORK}.ledger.jsonl", f"{FORK}.pr.json", "-" * 36 + ".jsonl"):
        (place.chats / name).write_bytes(record())
    assert place.skipped() == {
        "notes.jsonl": "its name is no session id",
        "-" * 36 + ".jsonl": "its name is no session id",
    }


def test_an_upper_case_name_keeps_its_case(place: Place) -> None:
    found = place.write(record(), session_id=NEW_ID.upper())
    assert FOREIGN_ID not in found.notes


def test_projects_that_collide_keep_their_own_directories(place: Place) -> None:
    one = place.write(record(cwd="/home/dev/projects-app"))
    other = place.records()[WITH_TOOL]
    assert one.scope == other.scope
    assert (one.work_dir, other.work_dir) == ("/home/dev/projects-app", "/home/dev/projects/app")


def test_records_of_another_session_are_told_and_not_resumed(place: Place) -> None:
    found = place.write(record(sessionId=FORK))
    assert FOREIGN_ID in found.notes
    refused = qwen_code.read_guard(found)
    assert refused is not None
    assert refused.reason is Refusal.IDENTITY_INVALID


def test_a_torn_last_line_never_changes_what_came_before(place: Place) -> None:
    whole = record(uuid="a") + record("assistant", "answer", uuid="b", parentUuid="a")
    torn = record(text="the next prompt", uuid="c", parentUuid="b")
    for length in range(len(torn) + 1):
        found = place.write(whole, torn[:length])
        complete = length >= len(torn) - 1
        assert found.turn is (TurnState.OPEN if complete else TurnState.ENDED), length
        assert found.durable
        assert DAMAGED not in found.notes


ODD = [
    b'{"type":"user","message":{"parts":[{"text":"n","thoughtSignature":NaN}]},"x":NaN}\n',
    b'{"type":"user","message":{"parts":[{"text":"n"}]},"x":18446744073709551616}\n',
    b'{"type":"user","message":{"parts":[{"text":"\\ud800 n"}]}}\n',
    b'{"type":"user","message":{"parts":null}}\n',
    b'{"type":"holiday"}\n',
    b'{"type":7}\n',
    b"[" * 5000 + b"]" * 5000 + b"\n",
    b'{"type":"user","x":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    b"null\n",
    b"\n\n\n",
    b'{"type":"assistant","message":"text"}\n',
    b'{"type":"user","timestamp":"yesterday","cwd":null}\n',
    b'{"type":"user","timestamp":"9999999-01-01"}\n',
]


@pytest.mark.parametrize("odd", ODD)
def test_odd_lines_never_hide_a_session(place: Place, odd: bytes) -> None:
    for lines in ((odd,), (odd, record()), (record(), odd), (record(), odd, record("assistant", "x"))):
        found = place.write(*lines)
        msgspec.json.encode(found)
    assert found.turn is TurnState.ENDED


@given(st.binary(max_size=400))
def test_any_bytes_are_read_as_something(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("any")
    spot = Place(root)
    spot.chats.mkdir(parents=True)
    msgspec.json.encode(spot.write(record(), data))
    assert isinstance(spot.write(data), SessionRecord)


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "dangling"])
def test_what_is_no_file_is_told_and_never_opened(place: Place, kind: str) -> None:
    path = place.transcript(NEW_ID)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(place.transcript(FORK))
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to(place.root / "nowhere")
    assert place.skipped() == {path.name: "not a regular file"}


def test_a_line_of_300_mb_costs_little_and_is_told(place: Place) -> None:
    path = place.transcript(NEW_ID)
    with path.open("wb") as file:
        file.truncate(300 << 20)
    began = time.perf_counter()
    found = place.records()[NEW_ID]
    assert time.perf_counter() - began < 2
    assert found.turn is TurnState.UNREADABLE
    assert found.notes
    assert found.work_dir is None


def test_a_known_session_is_not_opened_again(place: Place) -> None:
    memory = Memory()
    first = place.listing(memory)
    kept = memory.kept
    hidden = place.transcript(FORK)
    status = hidden.stat()
    hidden.write_bytes(b"x" * status.st_size)
    os.utime(hidden, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert place.listing(memory) == first
    assert memory.kept == kept
    with hidden.open("ab") as file:
        file.write(record())
    assert place.listing(memory) != first
    assert memory.kept == kept + 1


def test_a_home_without_sessions_lists_none(tmp_path: Path) -> None:
    assert Place(tmp_path).listing() == []
    assert Place(tmp_path).claims() == []


def test_nothing_is_ever_written(place: Place) -> None:
    def snapshot() -> dict[str, tuple[bytes, int]]:
        return {
            str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in place.root.rglob("*") if path.is_file()
        }

    before = snapshot()
    for found in place.records().values():
        qwen_code.read_guard(found)
    place.claims()
    assert snapshot() == before


# Claims


def claim_of(place: Place, kind: ClaimKind, session_id: str) -> Claim:
    return next(
        claim
        for claim in place.claims()
        if isinstance(claim, Claim) and claim.kind is kind and claim.session_id == session_id
    )


def test_the_registry_gives_the_exact_identity(place: Place) -> None:
    claim = claim_of(place, ClaimKind.REGISTRY, CANCELLED)
    assert (claim.pid, claim.boot_id, claim.start_ticks, claim.pid_ns) == (4337, BOOT, 124765, 4026531836)
    assert claim.written_at == pytest.approx(1794770956.968)
    assert (claim.version, claim.scope, claim.owner_uid, claim.many) == ("0.24.4", None, os.getuid(), False)


def test_an_acp_process_serves_many(place: Place) -> None:
    claim = claim_of(place, ClaimKind.REGISTRY, "ca8619cf-c7d9-4cdc-9b38-4c4a4514f94e")
    assert (claim.pid, claim.many) == (2003, True)


def test_runtime_json_is_the_second_best(place: Place) -> None:
    claim = claim_of(place, ClaimKind.RUNTIME, CANCELLED)
    assert (claim.pid, claim.scope, claim.hostname, claim.start_ticks) == (4337, SCOPE, "devhost", None)


def test_a_runtime_json_of_another_session_is_bad(place: Place) -> None:
    shutil.copy(place.chats / f"{CANCELLED}.runtime.json", place.chats / f"{FORK}.runtime.json")
    bad = [claim for claim in place.claims() if isinstance(claim, BadClaim)]
    assert [(claim.session_id, claim.scope) for claim in bad] == [(FORK, SCOPE)]


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": True},
        {"pid": "4242"},
        {"pid": 4242.5},
        {"pid": -1},
        {"pid": 2**64},
        {"pid": 4243},
        {"pid": ...},
        {"procStart": None},
        {"procStart": "73402"},
        {"procStart": f"{BOOT}:"},
        {"procStart": f"{BOOT}:12:13"},
        {"procStart": f"{BOOT}:-5"},
        {"procStart": 73402},
        {"pidNs": None},
        {"pidNs": "4026531836"},
        {"pidNs": 2**64},
        {"sessionId": "../../etc/passwd"},
        {"sessionId": 5},
        {"schemaVersion": 2},
        {"schemaVersion": "1"},
        {"schemaVersion": ...},
        {"startedAt": "now"},
        {"startedAt": float("nan")},
        {"startedAt": -1},
        {"cwd": None},
    ],
)
def test_a_registry_record_of_another_shape_is_bad(place: Place, changes: dict[str, Any]) -> None:
    claim = place.register(**changes)
    assert isinstance(claim, BadClaim)
    assert claim.reason


@pytest.mark.parametrize(
    "name", ["0.json", "042.json", "x.json", "4242-ABCDEF01.json", "4242-abc.json", "4242-notes.json", "-4242.json"]
)
def test_a_registry_record_with_another_name_is_bad(place: Place, name: str) -> None:
    assert isinstance(place.register(name), BadClaim)


def test_a_foreign_namespace_is_kept_as_written(place: Place) -> None:
    claim = place.register(pidNs=7)
    assert isinstance(claim, Claim)
    assert claim.pid_ns == 7


def test_temporary_files_of_the_registry_are_no_claims(place: Place) -> None:
    (place.registry / "4242.json.0123456789ab.tmp").write_text("{")
    assert not any(claim.path.endswith(".tmp") for claim in place.claims())


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "large", "torn", "nested"])
def test_a_registry_entry_that_is_no_record_is_bad(place: Place, kind: str) -> None:
    path = place.registry / "4242.json"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(place.registry / "4337.json")
        case "directory":
            path.mkdir()
        case "large":
            path.write_bytes((place.registry / "4337.json").read_bytes() + b" " * (1 << 17))
        case "torn":
            path.write_bytes((place.registry / "4337.json").read_bytes()[:-20])
        case _:
            path.write_bytes(b"[" * 60000)
    claim = next(claim for claim in place.claims() if claim.path == str(path))
    assert isinstance(claim, BadClaim)


def test_the_token_is_never_in_anything_returned(place: Place) -> None:
    assert CANARY in (place.registry / "4337.json").read_text()
    place.register(ipcToken=CANARY)
    place.register("4243.json", pid=CANARY, ipcToken=CANARY, sessionId=CANARY)
    place.register("4244.json", pid=4244, procStart=CANARY)
    place.register("4245.json", pid=4245, ipcToken=[CANARY])
    (place.registry / "4246.json").write_text(f'{{"ipcToken": "{CANARY}')
    returned: Sequence[Any] = [*place.claims(), *place.listing()]
    assert len(returned) > 10
    for value in returned:
        assert CANARY not in repr(value)
        assert CANARY.encode() not in msgspec.json.encode(value)
        assert b"qwen-socks" not in msgspec.json.encode(value)


# Homes


def environment(home_dir: Path, variables: dict[str, str] | None = None, extra: tuple[str, ...] = ()) -> Environment:
    return Environment(home_dir=str(home_dir), variables=variables or {}, extra_homes={qwen_code.name: extra})


def test_the_default_home_is_in_force_without_variables(tmp_path: Path) -> None:
    [home] = qwen_code.homes(environment(tmp_path))
    assert (home.path, home.is_default, home.data_path) == (str(tmp_path / ".qwen"), True, None)


def test_the_variable_moves_the_home_and_the_default_one_is_still_listed(tmp_path: Path) -> None:
    (tmp_path / ".qwen").mkdir()
    first, second = qwen_code.homes(environment(tmp_path, {"QWEN_HOME": "~/other"}))
    assert (first.path, first.is_default, first.origin) == (str(tmp_path / "other"), False, "QWEN_HOME")
    assert (second.path, second.is_default) == (str(tmp_path / ".qwen"), True)


@pytest.mark.parametrize(
    "line",
    [
        "QWEN_HOME=~/moved",
        'export QWEN_HOME="~/moved"',
        "QWEN_HOME='~/moved' # why",
        "A=1\nQWEN_HOME: ~/moved\n",
        "QWEN_HOME = ~/moved",
    ],
)
@pytest.mark.parametrize("place", [".env", ".qwen/.env"])
def test_an_env_file_moves_the_default_home(tmp_path: Path, line: str, place: str) -> None:
    (tmp_path / ".qwen").mkdir()
    (tmp_path / place).write_text(line)
    first, second = qwen_code.homes(environment(tmp_path))
    assert (first.path, first.is_default, first.origin) == (str(tmp_path / "moved"), True, ".env")
    assert (second.path, second.is_default) == (str(tmp_path / ".qwen"), False)


def test_an_empty_variable_is_neither_a_home_nor_a_reason_to_ask_env_files(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("QWEN_HOME=~/moved")
    assert qwen_code.homes(environment(tmp_path, {"QWEN_HOME": ""}))[0].path == str(tmp_path / ".qwen")


@pytest.mark.parametrize(
    ("settings", "variables", "expected"),
    [
        ('{"advanced": {"runtimeOutputDir": "~/run"}}', {}, "run"),
        ('{ // why\n "advanced": { /* x */ "runtimeOutputDir": "~/run" } }', {}, "run"),
        ('{"url": "http://x//y", "advanced": {"runtimeOutputDir": "~/run"}}', {}, "run"),
        ('{"advanced": {"runtimeOutputDir": "~/run"}}', {"QWEN_RUNTIME_DIR": "~/var"}, "var"),
        ('{"advanced": {"runtimeOutputDir": ""}}', {}, None),
        ('{"advanced": {"runtimeOutputDir": 5}}', {}, None),
        ('{"advanced": ', {}, None),
        ("{}", {"QWEN_RUNTIME_DIR": "~/.qwen"}, None),
    ],
)
def test_where_the_sessions_lie(tmp_path: Path, settings: str, variables: dict[str, str], expected: str | None) -> None:
    (tmp_path / ".qwen").mkdir()
    (tmp_path / ".qwen" / "settings.json").write_text(settings)
    [home] = qwen_code.homes(environment(tmp_path, variables))
    assert home.data_path == (str(tmp_path / expected) if expected else None)


def test_sessions_are_read_from_the_runtime_directory_and_the_registry_from_the_home(
    place: Place, tmp_path: Path
) -> None:
    (place.root / "projects").rename(tmp_path / "projects")
    moved = msgspec.structs.replace(place.home, data_path=str(tmp_path))
    assert len(list(qwen_code.list_sessions(moved, Memory()))) == 6
    assert {claim.kind for claim in all_claims(qwen_code, moved)} == {ClaimKind.REGISTRY, ClaimKind.RUNTIME}


def test_a_relative_runtime_directory_is_told(place: Place) -> None:
    (place.root / "settings.json").write_text('{"advanced": {"runtimeOutputDir": ".qwen-run"}}')
    [told] = place.listing()
    assert isinstance(told, Skipped)
    assert "relative" in told.reason
    assert {claim.kind for claim in place.claims()} == {ClaimKind.REGISTRY}


def test_homes_of_the_config_are_listed_and_each_directory_once(tmp_path: Path) -> None:
    (tmp_path / ".qwen").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / ".qwen")
    homes = qwen_code.homes(environment(tmp_path, extra=(str(tmp_path / "link"), str(tmp_path / "more"))))
    assert [(Path(home.path).name, home.origin) for home in homes] == [
        (".qwen", "default"),
        ("more", "config"),
    ]


# Resume


@pytest.mark.parametrize(
    ("work_dir", "name"),
    [
        ("/home/dev/projects/app", SCOPE),
        ("/x/My App_v1.2/süb", "-x-My-App-v1-2-s-b"),
        ("/x/\N{PILE OF POO}", "-x---"),
    ],
)
def test_a_project_is_named_as_qwen_names_it(work_dir: str, name: str) -> None:
    assert encode_project(work_dir) == name


def test_a_session_of_a_worktree_is_resumed_from_the_repository() -> None:
    assert find_resume_dir("/repo/.qwen/worktrees/fix", "-repo") == "/repo"
    assert find_resume_dir("/repo/.qwen/worktrees/fix", "-repo--qwen-worktrees-fix") == "/repo/.qwen/worktrees/fix"
    assert find_resume_dir("/other", "-repo") is None


class Project(Place):
    """A home with one whole session of a directory that exists."""

    def __init__(self, root: Path) -> None:
        super().__init__(root / ".qwen")
        self.work_dir = Path(os.path.realpath(root)) / "app"
        self.work_dir.mkdir()
        self.chats = self.root / "projects" / encode_project(str(self.work_dir)) / "chats"
        self.chats.mkdir(parents=True)
        cwd = str(self.work_dir)
        self.whole = [
            record(uuid="a", cwd=cwd),
            record("system", None, uuid="s", parentUuid="a", subtype="ui_telemetry", cwd=cwd),
            record("assistant", "one", uuid="b", parentUuid="s", cwd=cwd),
            record(text="again", uuid="c", parentUuid="b", cwd=cwd),
            record("assistant", "two", uuid="d", parentUuid="c", cwd=cwd),
        ]

    def guard(self, *lines: bytes) -> Refusal | None:
        refused = qwen_code.read_guard(self.write(*lines))
        return refused.reason if refused else None


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_whole_session_may_be_resumed(project: Project) -> None:
    assert project.guard(*project.whole) is None


def test_a_destroyed_record_is_refused_since_qwen_would_drop_all_before_it(project: Project) -> None:
    for number in range(len(project.whole) - 1):
        lines = [*project.whole[:number], b"garbage\n", *project.whole[number + 1 :]]
        assert project.guard(*lines) is Refusal.TRANSCRIPT_MISSING, number
        assert project.records()[NEW_ID].durable


def test_foreign_lines_glued_records_and_a_torn_end_cost_nothing(project: Project) -> None:
    whole = project.whole
    assert project.guard(*whole[:2], b"garbage\n", *whole[2:]) is None
    assert project.guard(whole[0].rstrip(b"\n") + whole[1], *whole[2:]) is None
    assert project.guard(*whole, record(uuid="e", parentUuid="d")[:-30]) is None


def test_a_damaged_file_with_records_of_two_sessions_is_refused(project: Project) -> None:
    lines = [*project.whole, b"garbage\n", record(uuid="x", parentUuid="d", sessionId=FORK)]
    assert project.guard(*lines) is Refusal.IDENTITY_INVALID


def test_a_transcript_in_another_project_is_refused(project: Project) -> None:
    assert project.guard(record(cwd="/elsewhere")) is Refusal.WORK_DIR_UNREGISTERED


def test_a_directory_that_became_a_link_is_refused(project: Project) -> None:
    project.work_dir.rename(project.work_dir.with_name("moved"))
    project.work_dir.symlink_to(project.work_dir.with_name("moved"))
    assert project.guard(*project.whole) is Refusal.WORK_DIR_UNREGISTERED


def test_a_transcript_without_directory_is_refused(project: Project) -> None:
    assert project.guard(record(cwd=None)) is Refusal.WORK_DIR_MISSING


@pytest.mark.parametrize(
    ("is_default", "data_path", "env"),
    [
        (True, None, {}),
        (False, None, {"QWEN_HOME": "/h"}),
        (True, "/d", {"QWEN_RUNTIME_DIR": "/d"}),
        (False, "/d", {"QWEN_HOME": "/h", "QWEN_RUNTIME_DIR": "/d"}),
    ],
)
def test_the_resume_command(place: Place, is_default: bool, data_path: str | None, env: dict[str, str]) -> None:
    home = Home(provider=qwen_code.name, path="/h", is_default=is_default, origin="x", data_path=data_path)
    program = Program(provider=qwen_code.name, path="/bin/qwen", version="0.24.4")
    resume = qwen_code.plan_resume(place.records()[WITH_TOOL], program, home)
    assert resume.argv == ("/bin/qwen", "--resume", WITH_TOOL)
    assert (resume.cwd, resume.env) == ("/home/dev/projects/app", env)


# Program


def install(root: Path, version: str = "0.24.4", product: str = "@qwen-code/qwen-code") -> Path:
    """An npm installation as it lies on disk, with a `qwen` command."""
    package = root / "lib" / "node_modules" / product
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": product, "version": version}))
    for name in ("cli-entry.js", "cli.js"):
        (package / name).write_text("#!/usr/bin/env node\n")
        (package / name).chmod(0o755)
    (root / "bin").mkdir()
    (root / "bin" / "qwen").symlink_to(package / "cli-entry.js")
    return root / "bin" / "qwen"


def program_of(root: Path) -> Program | None:
    return qwen_code.find_program(environment(root, {"PATH": f"/nowhere:{root / 'bin'}"}))


def test_the_version_is_told_without_running(tmp_path: Path) -> None:
    path = install(tmp_path)
    assert program_of(tmp_path) == Program(provider=qwen_code.name, path=str(path), version="0.24.4")


def test_a_version_without_registry_is_a_problem(tmp_path: Path) -> None:
    install(tmp_path, "0.15.10")
    found = program_of(tmp_path)
    assert found is not None
    assert found.problem is not None
    assert "0.15.10" in found.problem


def test_a_version_that_updated_itself_is_the_one_in_force(tmp_path: Path) -> None:
    import hashlib

    entry = os.path.realpath(install(tmp_path))
    place = tmp_path / ".qwen" / "updates" / "npm" / hashlib.sha256(entry.encode()).hexdigest()[:16]
    package = place / "versions" / "0.25.1" / "node_modules" / "@qwen-code" / "qwen-code"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@qwen-code/qwen-code", "version": "0.25.1"}')
    active = {
        "version": "0.25.1",
        "bootstrap": entry,
        "baseVersion": "0.24.4",
        "bootstrapCtimeMs": os.stat(entry).st_ctime_ns / 1e6,
    }
    (place / "active.json").write_text(json.dumps(active))
    found = program_of(tmp_path)
    assert found is not None
    assert found.version == "0.25.1"
    (place / "active.json").write_text(json.dumps(active | {"baseVersion": "0.24.3"}))
    found = program_of(tmp_path)
    assert found is not None
    assert found.version == "0.24.4"


def test_another_product_called_qwen_is_not_it(tmp_path: Path) -> None:
    install(tmp_path, product="qwen")
    assert program_of(tmp_path) is None


def test_no_program_is_none(tmp_path: Path) -> None:
    assert program_of(tmp_path) is None


# Processes: real ones, of a stand-in that starts its levels as qwen 0.24.4 does


ENTRY = """
const { spawn, spawnSync } = require('node:child_process');
const args = process.argv.slice(2), cli = __dirname + '/cli.js', env = { ...process.env };
if (args[0] === 'serve') {
  spawn(process.execPath, ['--expose-gc', cli, '--acp'], { env: { ...env, QWEN_CODE_NO_RELAUNCH: 'true' } });
  setInterval(() => {}, 1e6);
} else if (args[0] === 'mcp') { setInterval(() => {}, 1e6);
} else { spawnSync(process.execPath, ['--expose-gc', cli, ...args], { stdio: 'inherit', env }); }
"""
CLI = """
const { spawn } = require('node:child_process');
const args = process.argv.slice(2), env = { ...process.env };
if (!env.QWEN_CODE_NO_RELAUNCH && !args.includes('-p')) {
  spawn(process.execPath, [...process.execArgv, process.argv[1], ...args],
        { stdio: 'inherit', env: { ...env, QWEN_CODE_NO_RELAUNCH: 'true' } });
} else if (env.TOOL) { spawn('bash', ['-c', env.TOOL], { stdio: 'inherit', env: { ...env, TOOL: '' } }); }
setInterval(() => {}, 1e6);
"""


class Runs:
    """Starts stand-ins in one process group each, and ends them by it."""

    def __init__(self, root: Path, node: Path) -> None:
        self.root = root
        command = install(root)
        package = Path(os.path.realpath(command)).parent
        (package / "cli-entry.js").write_text("#!/usr/bin/env node\n" + ENTRY)
        (package / "cli.js").write_text(CLI)
        (root / "bin" / "node").symlink_to(node)
        self.env = {"HOME": str(root), "PATH": f"{root / 'bin'}:/usr/bin:/bin"}
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *args: str, **env: str) -> int:
        process = subprocess.Popen(
            ["qwen", *args], executable=self.root / "bin" / "qwen", env=self.env | env, cwd=self.root,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process.pid

    def wait(self, count: int) -> list[Recognised]:
        """Every recognised process below what was started, once there are so many."""
        tops = {process.pid for process in self.started}
        deadline = time.monotonic() + 20
        while True:
            table = ProcessTable()
            found = [
                seen
                for process in table
                if (process.pid in tops or any(above.pid in tops for above in table.ancestors(process)))
                and (seen := qwen_code.recognise(process, table))
            ]
            if len(found) >= count or time.monotonic() > deadline:
                return sorted(found, key=lambda seen: seen.identity.start_ticks)
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(10)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(Path(os.path.realpath(tmp_path)), find_node())
    try:
        yield runs
    finally:
        runs.stop()


def test_the_three_levels_of_one_run_share_its_top_and_the_youngest_serves(runs: Runs) -> None:
    top = runs.start("--model", "m")
    levels = runs.wait(3)
    assert [level.group for level in levels] == [top] * 3
    assert levels[0].identity.pid == top
    assert {level.home for level in levels} == {str(runs.root / ".qwen")}
    assert {level.version for level in levels} == {"0.24.4"}
    assert {level.work_dir for level in levels} == {str(runs.root)}
    serving = levels[-1].identity.pid
    assert b"QWEN_CODE_NO_RELAUNCH=true" in Path(f"/proc/{serving}/environ").read_bytes()


@pytest.mark.parametrize("tool", ["qwen -p inner", "true; qwen -p inner; true"])
def test_a_qwen_that_a_tool_runs_is_a_run_of_its_own(runs: Runs, tool: str) -> None:
    top = runs.start(TOOL=tool)
    found = runs.wait(5)
    outer = [seen for seen in found if seen.group == top]
    inner = [seen for seen in found if seen.group != top]
    assert (len(outer), len(inner)) == (3, 2)
    assert {seen.mode for seen in inner} == {ProcessMode.HEADLESS}
    assert {seen.group for seen in inner} == {inner[0].identity.pid}


@pytest.mark.parametrize(
    ("arguments", "levels", "mode"),
    [
        (("-p", "hello"), 2, ProcessMode.HEADLESS),
        (("--prompt=hello",), 3, ProcessMode.HEADLESS),
        (("--acp",), 3, ProcessMode.SERVER),
        (("serve", "--port", "0"), 2, ProcessMode.SERVER),
    ],
)
def test_how_a_run_was_started(runs: Runs, arguments: tuple[str, ...], levels: int, mode: ProcessMode) -> None:
    top = runs.start(*arguments)
    found = runs.wait(levels)
    assert [seen.group for seen in found] == [top] * levels
    assert {seen.mode for seen in found} == {mode}


@pytest.mark.parametrize(
    "arguments", [("mcp", "list"), ("sessions", "ps"), ("-m", "x", "extensions", "list"), ("--version",)]
)
def test_a_command_that_is_no_agent_is_not_recognised(runs: Runs, arguments: tuple[str, ...]) -> None:
    runs.start(*arguments)
    time.sleep(0.5)
    assert runs.wait(0) == []


def test_the_home_is_that_of_the_process(runs: Runs) -> None:
    runs.start("-p", "x", QWEN_HOME="~/other")
    assert {seen.home for seen in runs.wait(2)} == {str(runs.root / "other")}


def test_a_run_whose_wrapper_was_killed_is_still_one_run(runs: Runs) -> None:
    top = runs.start("-i", "x")
    levels = runs.wait(3)
    os.kill(top, signal.SIGKILL)
    runs.started[0].wait(10)
    table = ProcessTable()
    left = [
        seen
        for level in levels[1:]
        if (process := table.find(level.identity.pid)) and (seen := qwen_code.recognise(process, table))
    ]
    assert [seen.group for seen in left] == [levels[1].identity.pid] * 2


def test_another_program_called_qwen_is_not_recognised(runs: Runs) -> None:
    manifest = next(runs.root.rglob("package.json"))
    manifest.write_text('{"name": "something-else", "version": "1.0.0"}')
    runs.start("-p", "x")
    time.sleep(0.5)
    assert runs.wait(0) == []


def test_a_run_whose_package_was_removed_by_an_update_is_still_recognised(runs: Runs) -> None:
    top = runs.start("-p", "x")
    assert len(runs.wait(2)) == 2
    next(runs.root.rglob("package.json")).unlink()
    left = runs.wait(2)
    assert [(seen.group, seen.version) for seen in left] == [(top, None)] * 2


def test_this_very_process_is_not_qwen() -> None:
    table = ProcessTable()
    own = table.find(os.getpid())
    assert own is not None
    assert qwen_code.recognise(own, table) is None


def test_every_process_of_the_machine_can_be_asked() -> None:
    table = ProcessTable()
    for process in table:
        qwen_code.recognise(process, table)
