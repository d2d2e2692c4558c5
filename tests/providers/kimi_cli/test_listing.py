"""What kimi-cli leaves on disk, as it really is and in odd shapes: each session listed once, whatever lies beside it."""

from __future__ import annotations

import os
from hashlib import md5
from pathlib import Path

import pytest

from corral.model.record import SessionRecord, TurnState
from corral.model.restore import Refusal
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from tests.providers.evidence import all_claims
from tests.providers.kimi_cli.support import (
    BUCKET,
    FORK,
    KILLED,
    LONG,
    NORMAL,
    SYSTEM_LINE,
    USER_LINE,
    WORK_DIR,
    home_at,
    listing,
    make_session,
    sessions,
    skipped,
    wire_line,
)
from tests.providers.reading import Memory


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
        assert (found[LONG].durable, found[LONG].turn, found[LONG].unfinished) == (True, TurnState.OPEN, "SLOW 30")
        assert len(found) == 5
        assert skipped(tree) == {}


class TestOddShapes:
    def test_only_a_system_prompt_is_never_prompted(self, bucket: Path) -> None:
        make_session(bucket, "empty", context=SYSTEM_LINE * 500)
        record = sessions(bucket.parent.parent)["empty"]
        assert (record.durable, record.not_durable_reason, record.turn) == (False, "never prompted", TurnState.NONE)

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
        refused = kimi_cli.transcript.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.RESTORE_UNSUPPORTED

    def test_a_legacy_single_file_is_a_session(self, tree: Path, bucket: Path) -> None:
        (bucket / "old.jsonl").write_bytes(SYSTEM_LINE + USER_LINE)
        record = sessions(tree)["old"]
        assert (record.durable, record.work_dir, record.turn) == (True, WORK_DIR, TurnState.NONE)
        assert kimi_cli.transcript.find_path(record) == str(bucket / "old.jsonl")
        assert kimi_cli.transcript.read_guard(record) is None

    def test_a_legacy_file_beside_a_directory(self, tree: Path, bucket: Path) -> None:
        (bucket / "old.jsonl").write_bytes(SYSTEM_LINE + USER_LINE)
        (bucket / "old").mkdir()
        record = sessions(tree)["old"]
        assert record.durable
        assert kimi_cli.transcript.find_path(record) == str(bucket / "old.jsonl")
        make = bucket / "old" / "context.jsonl"
        make.write_bytes(SYSTEM_LINE)
        record = sessions(tree)["old"]
        assert not record.durable
        assert kimi_cli.transcript.find_path(record) == str(make)

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
        refused = kimi_cli.transcript.read_guard(record)
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
