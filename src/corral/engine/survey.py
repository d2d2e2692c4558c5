"""The survey: facts gathered, every claim judged, every session given its state, the selected ones answered."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from corral.engine.answer import Answerer
from corral.engine.gather import Facts, HomeFacts, environment, gather
from corral.engine.selection import Selection
from corral.engine.settings import read_settings
from corral.model.claim import BadClaim, Claim, ClaimKind
from corral.model.key import SessionKey
from corral.model.process import HostFacts, ProbeFacts, ProcessIdentity, Recognised
from corral.model.record import SessionRecord
from corral.model.session import AgentProcess, Degraded, Survey
from corral.model.verdict import ClaimVerdict, Liveness, SessionVerdict, State
from corral.providers import Provider
from corral.store.cache import Cache
from corral.store.known import BrokenShelf
from corral.store.launches import Launch, Launches
from corral.system import places
from corral.system.host import read_host_facts
from corral.system.probe import probe_claim
from corral.system.processes import ProcessTable
from corral.verdicts.attribution import Attribution, HookCover, attribute
from corral.verdicts.journal import claims_of
from corral.verdicts.liveness import decide_liveness, decide_superseded
from corral.verdicts.state import decide_resting, decide_state

if TYPE_CHECKING:
    from corral.hooks.installed import Installation

_PENDING_SECONDS = 120.0


class Entry(Struct, frozen=True, kw_only=True):
    """One selected session, judged, with the home it lies in."""

    key: SessionKey
    record: SessionRecord | None
    verdict: SessionVerdict
    facts: HomeFacts


def take_survey(
    selection: Selection,
    providers: Iterable[Provider] | None = None,
    *,
    anyway: bool = False,
    probing: bool = False,
) -> Survey:
    """Look at this machine now. Needs no daemon, changes nothing of a provider's.

    `anyway` plans restores as if nothing could be open unseen (`corral resume --anyway`). Only with `probing` is
    a provider's program run, and then only for its `--version`, where its files do not tell what it is.
    """
    cache = Cache(places.cache_dir())
    try:
        return _take_survey(cache, selection, providers, anyway=anyway, probing=probing)
    except BrokenShelf:
        cache.discard()
        return _take_survey(Cache(places.cache_dir()), selection, providers, anyway=anyway, probing=probing)


def _take_survey(
    cache: Cache, selection: Selection, providers: Iterable[Provider] | None, *, anyway: bool, probing: bool
) -> Survey:
    config = read_settings()
    env = environment(config, cache, probing=probing)
    table = ProcessTable()
    host = read_host_facts()
    facts = gather(env, places.state_dir(), cache, table, host, providers, thorough=selection.is_narrow)
    launches = Launches(places.state_dir()).read_all()
    judged = _judge_claims(facts, host, cache, _launch_claims(launches))
    accounted = _accounted(facts, judged)
    attribution = attribute(facts.recognised, accounted, {})
    installations: list[Installation] = []
    if attribution.unattributed:
        installations = _read_installations(facts)
        cover = _hook_cover(installations, facts)
        attribution = attribute(facts.recognised, accounted, cover, host.now, _distrusted(facts))
    counts: Counter[State] = Counter()
    unseen = None if table.is_readable else "running processes can't be seen here, so any of them could have it open"
    entries = list(_entries(facts, judged, attribution, selection, counts, unseen))
    answerer = Answerer(env=env, table=table, launches=launches, anyway=anyway)
    sessions = [
        answerer.answer(entry.key, entry.record, entry.verdict, entry.facts.provider, entry.facts.home)
        for entry in entries
    ]
    cache.close()
    return Survey(
        hostname=host.hostname,
        taken_at=host.now,
        sessions=tuple(session for session in sessions if selection.admits(session)),
        counts=dict(counts),
        unattributed=_listed(attribution.unattributed, installations, advise=True),
        no_session_yet=_listed(attribution.no_session_yet, installations, advise=False),
        homes=tuple(home.home for home in facts.homes),
        degraded=(*facts.degraded, *_own_problems(config.problem, config.path, cache.problem, unseen)),
        skipped=tuple(facts.skipped),
    )


def _launch_claims(launches: Iterable[Launch]) -> list[Claim]:
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


def _judge_claims(facts: Facts, host: HostFacts, cache: Cache, launched: Sequence[Claim]) -> list[ClaimVerdict]:
    canonical = {os.path.realpath(home.home.path): home.home.path for home in facts.homes}
    claims = [claim for home in facts.homes for claim in home.claims]
    claims += launched
    for journal in facts.journals:
        home = canonical.get(os.path.realpath(journal.home), journal.home)
        claims += [structs.replace(claim, home=home) for claim in claims_of(journal)]
    verdicts: list[ClaimVerdict] = []
    pins: list[tuple[str, float, ProcessIdentity]] = []
    for claim in claims:
        exact = claim.start_ticks is not None
        pin = None
        if not exact and claim.written_at is not None:
            pin = cache.find_pin(claim.path, claim.pid, claim.written_at)
        verdict = decide_liveness(claim, _probe(claim), host, pin)
        verdicts.append(verdict)
        if not exact and pin is None and verdict.identity is not None and claim.written_at is not None:
            pins.append((claim.path, claim.written_at, verdict.identity))
    cache.keep_pins(pins)
    return _doubt_old_launches(decide_superseded(verdicts), host.now)


def _probe(claim: Claim) -> ProbeFacts | None:
    return None if claim.ended_at is not None else probe_claim(claim)


def _accounted(facts: Facts, judged: Sequence[ClaimVerdict]) -> set[ProcessIdentity]:
    """The processes that a verified claim names, or that reported to our journal."""
    named = {verdict.identity for verdict in judged if verdict.liveness is Liveness.LIVE and verdict.identity}
    return named | {journal.identity for journal in facts.journals}


def _read_installations(facts: Facts) -> list[Installation]:
    """Our hooks in every home; asked for only when some process is not accounted for."""
    from corral.hooks.installed import read_installation

    found = (read_installation(places.state_dir(), home.provider.name, home.home.path) for home in facts.homes)
    return [installation for installation in found if installation is not None]


def _hook_cover(installations: Sequence[Installation], facts: Facts) -> dict[tuple[str, str], HookCover]:
    """Where our hooks are in a config that has not changed since: every later process has read them."""
    silences = {home.provider.name: home.provider.capabilities.silent_s for home in facts.homes}
    blind = {one.provider for one in facts.unread_journals if not one.path.endswith(".json")}
    cover: dict[tuple[str, str], HookCover] = {}
    for found in installations:
        if found.present and not found.problems and found.config_ctime is not None and found.provider not in blind:
            since = max(found.installed_at, found.config_ctime)
            cover[found.provider, found.home] = HookCover(since=since, silence_s=silences[found.provider])
    return cover


def _distrusted(facts: Facts) -> set[tuple[int, int]]:
    """PID and start ticks of processes whose journal can't be read, as its name says them."""
    found: set[tuple[int, int]] = set()
    for one in facts.unread_journals:
        pid, _, ticks = os.path.basename(one.path).removesuffix(".json").partition("-")
        if pid.isdecimal() and ticks.isdecimal():
            found.add((int(pid), int(ticks)))
    return found


class _Join:
    """Claims by the session they name."""

    def __init__(self, judged: Sequence[ClaimVerdict], bad: Iterable[BadClaim]) -> None:
        self.by_id: Mapping[tuple[str, str, str], list[ClaimVerdict]] = defaultdict(list)
        for verdict in judged:
            claim = verdict.claim
            self.by_id[claim.provider, claim.home, claim.session_id].append(verdict)
        self.bad_by_id: Mapping[tuple[str, str, str], list[BadClaim]] = defaultdict(list)
        for claim in bad:
            if claim.session_id is not None:
                self.bad_by_id[claim.provider, claim.home, claim.session_id].append(claim)

    def claimed_ids(self, provider: str, home: str) -> list[str]:
        """The ids that a claim in this home names."""
        return [session_id for (p, h, session_id) in self.by_id if (p, h) == (provider, home)]

    def ids_in(self, provider: str, home: str) -> set[str]:
        """The same with those that an unreadable claim names."""
        bad = (session_id for (p, h, session_id) in self.bad_by_id if (p, h) == (provider, home))
        return {*self.claimed_ids(provider, home), *bad}


def _entries(
    facts: Facts,
    judged: Sequence[ClaimVerdict],
    attribution: Attribution,
    selection: Selection,
    counts: Counter[State],
    unseen: str | None,
) -> Iterable[Entry]:
    join = _Join(judged, (bad for home in facts.homes for bad in home.bad_claims))
    for home in facts.homes:
        name, path = home.provider.name, home.home.path
        maybe_pids = attribution.maybe_serving(name, path)
        named = join.ids_in(name, path)
        claimed: dict[str, list[SessionRecord]] = defaultdict(list)
        in_doubt = bool(maybe_pids or unseen)
        everywhere, idle_too = selection.under is None, selection.wants_state(State.IDLE)
        apart = named | selection.besides
        records = list(home.records)
        # Most sessions are idle and not asked for: they are only counted.
        idle = 0
        for group in home.resting:
            if in_doubt or idle_too or not everywhere or not apart.isdisjoint(group.ids):
                records += group.load()
            else:
                idle += len(group.ids)
        for record in records:
            if in_doubt or record.session_id in named:
                claimed[record.session_id].append(record)
                continue
            if not everywhere and not selection.covers(record.work_dir):
                continue
            state, reason = decide_resting(record)
            if state is State.IDLE:
                idle += 1
                if not idle_too and record.session_id not in selection.besides:
                    continue
            else:
                counts[state] += 1
            if selection.wants(state, record.session_id):
                verdict = SessionVerdict(state=state, reason=reason)
                yield Entry(key=record.key, record=record, verdict=verdict, facts=home)
        if idle:
            counts[State.IDLE] += idle
        for session_id in dict.fromkeys([*claimed, *join.claimed_ids(name, path)]):
            verdicts = join.by_id.get((name, path, session_id), [])
            bad = join.bad_by_id.get((name, path, session_id), [])
            for key, record, verdict in _decide_id(
                home, session_id, claimed.get(session_id, []), verdicts, bad, maybe_pids, unseen
            ):
                if not selection.covers(_work_dir(record, verdict)):
                    continue
                counts[verdict.state] += 1
                if selection.wants(verdict.state, session_id):
                    yield Entry(key=key, record=record, verdict=verdict, facts=home)


def _work_dir(record: SessionRecord | None, verdict: SessionVerdict) -> str | None:
    """As its provider wrote it, else as the newest claim says."""
    if record is not None and record.work_dir is not None:
        return record.work_dir
    told = sorted(verdict.evidence, key=lambda judged: judged.claim.written_at or 0.0)
    return told[-1].claim.work_dir if told else None


def _decide_id(
    home: HomeFacts,
    session_id: str,
    records: Sequence[SessionRecord],
    verdicts: Sequence[ClaimVerdict],
    bad: Sequence[BadClaim],
    maybe_pids: Sequence[int],
    unseen: str | None,
) -> Iterable[tuple[SessionKey, SessionRecord | None, SessionVerdict]]:
    """All sessions of one id in one home: usually one, several where ids repeat in scopes."""
    scopes = {record.scope for record in records}
    adrift = [verdict for verdict in verdicts if verdict.claim.scope is None]
    if adrift and len(scopes) == 1:
        only = next(iter(scopes))
        verdicts = [*[verdict for verdict in verdicts if verdict.claim.scope is not None], *adrift]
        placed = {id(verdict): only for verdict in adrift}
        adrift = []
    else:
        placed = dict[int, str]()

    def of_scope(scope: str) -> list[ClaimVerdict]:
        return [verdict for verdict in verdicts if placed.get(id(verdict), verdict.claim.scope) == scope]

    for record in records:
        bad_here = [claim for claim in bad if claim.scope in (None, record.scope)]
        yield record.key, record, decide_state(record, of_scope(record.scope), bad_here, maybe_pids, adrift, unseen)
    homeless = {verdict.claim.scope for verdict in verdicts if id(verdict) not in placed} - scopes
    for scope in homeless:
        if scope is None and records:
            continue  # shown as doubt on each of them
        held = [verdict for verdict in verdicts if verdict.claim.scope == scope]
        if all(verdict.liveness is Liveness.STALE for verdict in held):
            continue  # nothing on disk, nobody there: it was deleted
        key = SessionKey(home.provider.name, home.home.path, scope or "", session_id)
        yield key, None, decide_state(None, held)


def _listed(
    processes: Sequence[Recognised], installations: Sequence[Installation], *, advise: bool
) -> tuple[AgentProcess, ...]:
    listed: list[AgentProcess] = []
    for process in processes:
        advice = f"corral hooks install {process.provider}"
        if any(
            found.present and found.provider == process.provider and process.home in (None, found.home)
            for found in installations
        ):
            advice = f"restart pid {process.identity.pid}: it started before the hooks were installed"
        listed.append(
            AgentProcess(
                provider=process.provider,
                pid=process.identity.pid,
                started_at=process.started_at,
                home=process.home,
                mode=process.mode,
                terminal=process.terminal,
                work_dir=process.work_dir,
                advice=advice if advise else None,
            )
        )
    return tuple(listed)


def _own_problems(
    config_problem: str | None, config_path: str, cache_problem: str | None, unseen: str | None
) -> list[Degraded]:
    problems: list[Degraded] = []
    if unseen is not None:
        problems.append(Degraded(provider="corral", step="read /proc", reason=unseen))
    if config_problem is not None:
        problems.append(Degraded(provider="corral", step=f"read {config_path}", reason=config_problem))
    if cache_problem is not None:
        problems.append(Degraded(provider="corral", step="use the cache", reason=cache_problem))
    return problems
