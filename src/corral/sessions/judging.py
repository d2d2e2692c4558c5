"""Judges claims: all those of a survey, or one runtime.json, wherever it is and whoever wrote it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from msgspec import structs

from corral import sidecar
from corral.machine import places
from corral.machine.host import read_host_facts
from corral.machine.probe import probe_claim
from corral.model.claim import Claim, ClaimKind
from corral.model.key import SessionKey
from corral.model.process import HostFacts, ProcessIdentity
from corral.model.verdict import ClaimVerdict, Liveness
from corral.providers.kit.runtime_claims import claim_of
from corral.sessions.cache import Cache
from corral.sessions.decide.attribution import doubt_missed, named_process
from corral.sessions.decide.claims import child_claims, claims_of, log_claims, weigh_logs
from corral.sessions.decide.conflicts import decide_by_writer, decide_superseded, refute_copies
from corral.sessions.decide.liveness import decide_liveness
from corral.sessions.gather import Facts
from corral.state.launches import Launch

_PENDING_SECONDS = 120.0
_DEATHS = frozenset({"gone", "reused", "zombie", "tid", "reboot"})
"""The rules by which a claim does not hold because its process has ended."""


def _launch_claims(launches: Iterable[Launch]) -> list[Claim]:
    """What we started, until the provider reports it."""
    return [
        Claim(
            kind=ClaimKind.LAUNCH,
            provider=launch.key.provider,
            home=launch.key.home,
            scope=launch.key.scope,
            session_id=launch.key.session_id,
            path=launch.path,
            pid=launch.process.pid,
            written_at=launch.launched_at,
            boot_id=launch.process.boot_id,
            pid_ns=launch.process.pid_ns,
            start_ticks=launch.process.start_ticks,
            work_dir=launch.cwd,
            silence=launch.silence,
        )
        for launch in launches
        if not launch.confirmed
    ]


def _doubt_old_launches(verdicts: Sequence[ClaimVerdict], now: float) -> list[ClaimVerdict]:
    """A launch that was never confirmed is pending for a while; then the process may have any session, this one too."""
    why = "and its provider never reported what it serves"
    return [
        verdict.doubted("unconfirmed", f"corral started pid {verdict.claim.pid} on it, {why}")
        if verdict.claim.kind is ClaimKind.LAUNCH
        and verdict.liveness is Liveness.LIVE
        and now - (verdict.claim.written_at or 0.0) > _PENDING_SECONDS
        else verdict
        for verdict in verdicts
    ]


def judge_claims(facts: Facts, host: HostFacts, cache: Cache, launches: Iterable[Launch]) -> list[ClaimVerdict]:
    """Each claim by itself, then against the others."""
    claims = [claim for home in facts.homes for claim in home.claims]
    claims += log_claims(facts.recognised)
    claims += child_claims(facts.recognised)
    claims += _launch_claims(launches)
    claims += [claim for journal in facts.journals for claim in claims_of(journal)]
    verdicts: list[ClaimVerdict] = []
    pins: list[tuple[str, float, ProcessIdentity]] = []
    for claim in claims:
        exact = claim.start_ticks is not None
        pin = None
        if not exact and claim.written_at is not None:
            pin = cache.find_pin(claim.path, claim.pid, claim.written_at)
        verdict = structs.replace(
            decide_liveness(claim, None if claim.ended_at is not None else probe_claim(claim), host, pin), pin=pin
        )
        verdicts.append(verdict)
        if not exact and pin is None and verdict.identity is not None and claim.written_at is not None:
            pins.append((claim.path, claim.written_at, verdict.identity))
    cache.keep_pins(pins)
    verdicts = _date_deaths(verdicts, host, cache)
    missed = {journal.identity: journal.missed for journal in facts.journals if journal.missed}
    running = {(one.identity.pid, one.identity.start_ticks): one for one in facts.recognised}
    verdicts = refute_copies(decide_by_writer(verdicts, host), running)
    verdicts = decide_superseded(weigh_logs(verdicts, facts.recognised))
    return _doubt_old_launches(doubt_missed(verdicts, missed), host.now)


def _date_deaths(verdicts: Sequence[ClaimVerdict], host: HostFacts, cache: Cache) -> list[ClaimVerdict]:
    """The same verdicts; those of dead processes with the time by which they were dead."""
    died = {
        id(verdict): identity
        for verdict in verdicts
        if verdict.liveness is Liveness.STALE
        and verdict.rule in _DEATHS
        and (identity := named_process(verdict.claim)) is not None
    }
    here = {identity for identity in died.values() if identity.boot_id == host.boot_id}
    seen = cache.note_deaths(here, time.time())

    def date(verdict: ClaimVerdict) -> ClaimVerdict:
        if (identity := died.get(id(verdict))) is None:
            return verdict
        return structs.replace(verdict, dead_by=seen.get(identity) if identity in here else host.booted_at)

    return [date(verdict) for verdict in verdicts]


def check_sidecar(path: str) -> ClaimVerdict | sidecar.Refusal:
    """The verdict on what the file says, or why it is not a valid claim."""
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
