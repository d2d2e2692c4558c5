"""How a session of kimi-code is resumed, and when that is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec

from corral.model.restore import Program, Refusal
from corral.providers.kimi_code import PROVIDER as kimi_code
from tests.providers.kimi_code.support import NORMAL, WORK_DIR, home_at, sessions


class TestRestore:
    def test_it_is_resumed_in_its_own_directory(self, tree: Path) -> None:
        record = sessions(tree)[NORMAL]
        assert kimi_code.transcript.read_guard(record) is None
        program = Program(provider="kimi-code", path="/opt/bin/kimi", version="2.1.0")
        plan = kimi_code.plan_resume(record, program, home_at(tree))
        assert (plan.argv, plan.cwd) == (("/opt/bin/kimi", "-r", NORMAL), WORK_DIR)
        assert plan.env == {"KIMI_CODE_HOME": str(tree)}
        assert kimi_code.plan_resume(record, program, home_at(tree, is_default=True)).env == {}
        assert Path(kimi_code.transcript.find_path(record)).is_file()

    def test_another_directory_than_the_recorded_one_is_refused(self, tree: Path) -> None:
        record = msgspec.structs.replace(sessions(tree)[NORMAL], work_dir="/mnt/real/app")
        refused = kimi_code.transcript.read_guard(record)
        assert refused is not None
        assert refused.reason is Refusal.WORK_DIR_MISSING
