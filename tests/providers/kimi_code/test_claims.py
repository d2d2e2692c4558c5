"""Which files of kimi-code claim a session, and which of them are not believed."""

from __future__ import annotations

import os
from pathlib import Path

from corral import sidecar
from corral.model.claim import BadClaim, Claim
from corral.providers.kimi_code import PROVIDER as kimi_code
from tests.providers.evidence import all_claims
from tests.providers.kimi_code.support import BUCKET, NORMAL, PARENT, WORK_DIR, home_at


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
