"""All claims of a home as a survey reads them: what the provider publishes, and each runtime.json it pointed to."""

from __future__ import annotations

from corral.machine.processes import ProcessTable
from corral.model.claim import BadClaim, Claim
from corral.model.key import Home
from corral.model.record import SessionRecord
from corral.providers.contract import Provider
from corral.providers.kit.runtime_claims import read_runtime_claim
from corral.sessions.cache import KnownRecords


def all_claims(provider: Provider, home: Home) -> list[Claim | BadClaim]:
    claims = list(provider.list_claims(home, ProcessTable()))
    for record in provider.list_sessions(home, KnownRecords(provider.name, home.path, list)):
        if isinstance(record, SessionRecord) and record.sidecar is not None:
            claims.append(read_runtime_claim(record.sidecar.path, record.key))
    return claims
