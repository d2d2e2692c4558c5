"""Which files of kimi-cli claim a session, and which of them are not believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral import sidecar
from corral.model.claim import BadClaim, Claim
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from tests.providers.evidence import all_claims
from tests.providers.kimi_cli.support import BUCKET, FORK, NORMAL, WORK_DIR, home_at


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
