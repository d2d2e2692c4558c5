"""Which Qwen Code sessions are listed, each once, and what lies beside them that is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from corral.model.record import SessionRecord, TurnState
from corral.model.restore import Refusal
from corral.providers.kit.conversations import FOREIGN_ID
from corral.providers.qwen_code import PROVIDER as qwen_code
from tests.providers.kimi_support import settle
from tests.providers.qwen_support import (
    CANCELLED,
    FORK,
    KILLED_IN_TOOL,
    NEW_ID,
    SCOPE,
    TWICE_OPENED,
    UNSPOKEN,
    WITH_TOOL,
    Place,
    record,
)
from tests.providers.reading import Memory


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


def test_a_session_that_was_never_prompted_is_listed_as_not_durable(place: Place) -> None:
    found = place.records()[UNSPOKEN]
    assert (found.durable, found.turn, found.work_dir) == (False, TurnState.NONE, "/home/dev/projects/app")
    assert not os.path.exists(qwen_code.transcript.find_path(found))


def test_archived_sessions_are_listed_as_such(place: Place) -> None:
    (place.chats / "archive").mkdir()
    place.transcript(FORK).rename(place.chats / "archive" / f"{FORK}.jsonl")
    found = place.records()[FORK]
    assert found.archived
    refused = qwen_code.transcript.read_guard(found)
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
        "notes.jsonl": "its name is not a session id",
        "-" * 36 + ".jsonl": "its name is not a session id",
    }


def test_an_upper_case_name_keeps_its_case(place: Place) -> None:
    found = place.write(record(), session_id=NEW_ID.upper())
    assert FOREIGN_ID not in found.notes


def test_projects_that_collide_keep_their_own_directories(place: Place) -> None:
    one = place.write(record(cwd="/home/dev/projects-app"))
    other = place.records()[WITH_TOOL]
    assert one.scope == other.scope
    assert (one.work_dir, other.work_dir) == ("/home/dev/projects-app", "/home/dev/projects/app")


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


def test_a_known_session_is_not_opened_again(place: Place) -> None:
    settle(place.root)
    memory = Memory()
    first = place.listing(memory)
    missed = memory.missed
    assert place.listing(memory) == first
    assert memory.missed == missed
    with place.transcript(FORK).open("ab") as file:
        file.write(record())
    assert place.listing(memory) != first
    assert memory.missed == missed + 1


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
        qwen_code.transcript.read_guard(found)
    place.claims()
    assert snapshot() == before
