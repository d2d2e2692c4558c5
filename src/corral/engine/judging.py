"""Every claim of a survey judged: what providers, journals and our own launches say of running processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from corral.engine.gather import Facts
from corral.model.claim import Claim, ClaimKind
from corral.model.process import HostFacts, ProbeFacts, ProcessIdentity
from corral.model.verdict import ClaimVerdict, Liveness
from corral.store.cache import Cache
from corral.store.launches import Launch
from corral.system.probe import probe_claim
from corral.verdicts.copied import refute_copies
from corral.verdicts.journal import claims_of
from corral.verdicts.liveness import decide_liveness, decide_superseded
from corral.verdicts.missed import doubt_missed
from corral.verdicts.own_log import log_claims, weigh_logs
from corral.verdicts.same_process import decide_by_writer
from corral.verdicts.told_by_child import child_claims

_PENDING_SECONDS = 120.0


def launch_claims(launches: Iterable[Launch]) -> list[Claim]:
    """Our own word, until the provider's first one."""
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
    return [
        structs.replace(
            verdict,
            liveness=Liveness.UNKNOWN,
            rule="unconfirmed",
            reason=f"corral started pid {verdict.claim.pid} on it, and its provider never said what it serves",
            identity=None,
        )
        if verdict.claim.kind is ClaimKind.LAUNCH
        and verdict.liveness is Liveness.LIVE
        and now - (verdict.claim.written_at or 0.0) > _PENDING_SECONDS
        else verdict
        for verdict in verdicts
    ]


def judge_claims(facts: Facts, host: HostFacts, cache: Cache, launched: Sequence[Claim]) -> list[ClaimVerdict]:
    claims = [claim for home in facts.homes for claim in home.claims]
    claims += log_claims(facts.recognised)
    claims += child_claims(facts.recognised)
    claims += launched
    claims += [claim for journal in facts.journals for claim in claims_of(journal)]
    verdicts: list[ClaimVerdict] = []
    pins: list[tuple[str, float, ProcessIdentity]] = []
    for claim in claims:
        exact = claim.start_ticks is not None
        pin = None
        if not exact and claim.written_at is not None:
            pin = cache.find_pin(claim.path, claim.pid, claim.written_at)
        verdict = structs.replace(decide_liveness(claim, _probe(claim), host, pin), pin=pin)
        verdicts.append(verdict)
        if not exact and pin is None and verdict.identity is not None and claim.written_at is not None:
            pins.append((claim.path, claim.written_at, verdict.identity))
    cache.keep_pins(pins)
    missed = {journal.identity: journal.missed for journal in facts.journals if journal.missed}
    running = {(one.identity.pid, one.identity.start_ticks): one for one in facts.recognised}
    verdicts = refute_copies(decide_by_writer(verdicts, host), running)
    verdicts = decide_superseded(weigh_logs(verdicts, facts.recognised))
    return _doubt_old_launches(doubt_missed(verdicts, missed), host.now)


def _probe(claim: Claim) -> ProbeFacts | None:
    return None if claim.ended_at is not None else probe_claim(claim)
