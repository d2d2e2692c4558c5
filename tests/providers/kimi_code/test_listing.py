"""What kimi-code leaves on disk, as it really is and in odd shapes: each session listed once, whatever lies beside it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from corral.model.record import SessionRecord, TurnState
from corral.model.restore import Refusal
from corral.providers.kimi_code import PROVIDER as kimi_code
from tests.providers.evidence import all_claims
from tests.providers.kimi_code.support import (
    BUCKET,
    FORK,
    KILLED,
    LONG,
    MIGRATED,
    NORMAL,
    PARENT,
    WORK_DIR,
    home_at,
    listing,
    make_session,
    prompt,
    sessions,
    skipped,
)
from tests.providers.reading import Memory


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


class TestOddShapes:
    def test_archived(self, tree: Path, bucket: Path) -> None:
        make_session(bucket, "session_1", prompt("a"), archived=True, title="T\tt")
        record = sessions(tree)["session_1"]
        assert (record.archived, record.title) == (True, "T t")

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"[]", b'{"id":7}', b'{"id":"session_1"}', b'{"id":"session_1","cwd":"relative"}', b"\xff"],
    )
    def test_a_bad_state_file_is_not_durable_as_kimi_code_does_not_find_it(
        self, tree: Path, bucket: Path, content: bytes
    ) -> None:
        directory = make_session(bucket, "session_1", prompt("a"))
        (directory / "state.json").write_bytes(content)
        record = sessions(tree)["session_1"]
        assert (record.durable, record.work_dir, record.turn) == (False, None, TurnState.OPEN)
        refused = kimi_code.transcript.read_guard(record)
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
        refused = kimi_code.transcript.read_guard(record)
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
