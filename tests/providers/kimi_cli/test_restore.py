"""How a session of kimi-cli is resumed, and when that is refused."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from corral.model.restore import Command, Program, Refusal
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from tests.providers.kimi_cli.support import NORMAL, WORK_DIR, home_at, sessions


class TestRestore:
    def test_a_sound_session_may_be_resumed(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        assert kimi_cli.transcript.read_guard(record) is None
        program = Program(provider="kimi-cli", path="/opt/bin/kimi", version="1.51.0")
        plan = kimi_cli.plan_resume(record, program, home_at(tree))
        assert plan.argv == ("/opt/bin/kimi", "-w", WORK_DIR, "--session", NORMAL)
        assert plan.cwd == WORK_DIR
        assert plan.env == {"KIMI_SHARE_DIR": str(tree)}
        assert kimi_cli.plan_resume(record, program, home_at(tree, is_default=True)).env == {}

    def test_an_unlisted_directory_is_refused_with_the_way_out(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        (tree / "kimi.json").write_text('{"work_dirs": [{"path": "/home/dev/projects/app/"}]}')
        refused = kimi_cli.transcript.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_UNREGISTERED
        assert refused.remedy == (
            Command(f"KIMI_SHARE_DIR={tree} kimi -w {WORK_DIR}"),
            "leave with /quit",
            Command(f"corral resume {NORMAL}"),
        )

    def test_a_missing_kimi_json_lists_nothing(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        (tree / "kimi.json").unlink()
        refused = kimi_cli.transcript.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_UNREGISTERED

    def test_a_missing_context_is_refused(self, tree: Path, bucket: Path) -> None:
        record = sessions(tree)[NORMAL]
        (bucket / NORMAL / "context.jsonl").unlink()
        refused = kimi_cli.transcript.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.TRANSCRIPT_MISSING

    def test_a_directory_of_another_spelling_is_refused(self, tree: Path) -> None:
        # A process reports its directory with links resolved; the bucket is of the one it was given.
        (tree / "kimi.json").write_text(json.dumps({"work_dirs": [{"path": WORK_DIR}, {"path": "/mnt/real/app"}]}))
        record = msgspec.structs.replace(sessions(tree)[NORMAL], work_dir="/mnt/real/app")
        refused = kimi_cli.transcript.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_UNREGISTERED
