"""One runtime.json judged by the full procedure, wherever it lies and whoever wrote it."""

from __future__ import annotations

import os

from corral import sidecar
from corral.model.key import SessionKey
from corral.model.verdict import ClaimVerdict
from corral.store.cache import Cache
from corral.system import places
from corral.system.host import read_host_facts
from corral.system.probe import probe_claim
from corral.system.runtime_claims import claim_of
from corral.verdicts.liveness import decide_liveness


def check_sidecar(path: str) -> ClaimVerdict | sidecar.Refusal:
    """The verdict on what the file says, or why it says nothing that could be believed."""
    file = sidecar.read_file(path)
    if isinstance(file.record, sidecar.Refusal):
        return file.record
    record = file.record
    key = SessionKey(record.provider or "", os.path.dirname(os.path.abspath(path)), "", record.session_id)
    claim = claim_of(path, key, record, file.stat.st_uid if file.stat else None)
    cache = Cache(places.cache_dir())
    pin = cache.find_pin(path, claim.pid, record.started_at) if claim.start_ticks is None else None
    verdict = decide_liveness(claim, probe_claim(claim), read_host_facts(), pin)
    cache.close()
    return verdict
