"""runtime.json in kimi-code's session directories, as our hook or an embedded sidecar wrote it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from corral.model.claim import BadClaim, Claim
from corral.model.key import Home, SessionKey
from corral.model.record import Skipped
from corral.providers.kimi_code.places import NAME, list_buckets, opened
from corral.system.runtime_claims import read_runtime_claim


def list_claims(home: Home) -> Iterator[Claim | BadClaim]:
    """One look per session for the file itself."""
    for bucket in list_buckets(home.path):
        if isinstance(bucket, Skipped):
            continue  # list_sessions tells of it
        with opened(bucket) as fd:
            if fd is None:
                continue
            for session_id in bucket.sessions:
                if os.access(f"{session_id}/runtime.json", os.F_OK, dir_fd=fd, follow_symlinks=False):
                    key = SessionKey(NAME, home.path, bucket.name, session_id)
                    yield read_runtime_claim(f"{bucket.path}/{session_id}/runtime.json", key)
