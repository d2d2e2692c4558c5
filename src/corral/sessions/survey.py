"""The survey: facts gathered, every claim judged, every session given its state, the selected ones answered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from corral.machine import places
from corral.machine.host import read_host_facts
from corral.machine.processes import ProcessTable
from corral.model.known import BrokenShelf
from corral.model.process import HostFacts, Recognised
from corral.model.record import SessionRecord
from corral.model.selection import Selection
from corral.model.session import AgentProcess, Degraded, Survey
from corral.model.verdict import ClaimVerdict, Liveness, State
from corral.providers.asking import Asker
from corral.providers.contract import Provider
from corral.providers.settings import read_settings
from corral.sessions.advice import advise
from corral.sessions.answer import Answerer
from corral.sessions.cache import Cache
from corral.sessions.decide.attribution import Attribution, attribute
from corral.sessions.decide.reporting import BY_HOOK, WITNESS, doubt_outdated
from corral.sessions.entries import select_entries
from corral.sessions.gather import Facts, environment, gather
from corral.sessions.judging import judge_claims, launch_claims
from corral.sessions.reach import forget_directories
from corral.state.launches import Launches

if TYPE_CHECKING:
    from corral.sessions.trust import Trust


def take_survey(
    selection: Selection,
    providers: Iterable[Provider] | None = None,
    *,
    anyway: bool = False,
    probing: bool = False,
    remembered: Sequence[SessionRecord] | None = None,
) -> Survey:
    """Look at this machine now. Needs no daemon, changes nothing of a provider's.

    `anyway` plans restores as if nothing could be open unseen (`corral resume --anyway`). Only with `probing` is
    a provider's program run, and then only for its `--version`, where its files do not tell what it is.
    `remembered` are sessions as the last survey read them, taken for all there are: only processes have changed.
    """
    cache = Cache(places.cache_dir())
    try:
        return _take_survey(cache, selection, providers, anyway, probing, remembered)
    except BrokenShelf:
        cache.discard()
        return _take_survey(Cache(places.cache_dir()), selection, providers, anyway, probing, remembered)


def _take_survey(
    cache: Cache,
    selection: Selection,
    providers: Iterable[Provider] | None,
    anyway: bool,
    probing: bool,
    remembered: Sequence[SessionRecord] | None,
) -> Survey:
    config = read_settings()
    env = environment(config, cache, probing=probing)
    table = ProcessTable()
    host = read_host_facts()
    thorough = selection.is_narrow
    asker = Asker()
    facts = gather(
        env, places.state_dir(), cache, table, host, asker, providers, thorough=thorough, remembered=remembered
    )
    launches = Launches(places.state_dir()).read_all()
    judged = judge_claims(facts, host, cache, launch_claims(launches))
    attributed = _attribute(facts, judged, table, host, asker, thorough=thorough)
    judged, attribution = attributed.judged, attributed.attribution
    counts: Counter[State] = Counter()
    unseen = None if table.is_readable else "running processes can't be seen here, so any of them could have it open"
    entries = list(select_entries(facts, judged, attribution, selection, counts, unseen))
    answerer = Answerer(env=env, table=table, asker=asker, launches=launches, anyway=anyway)
    sessions = [
        answerer.answer(
            entry.key,
            entry.record,
            entry.verdict,
            entry.facts.provider,
            entry.facts.home,
            closely=selection.names(entry.key.session_id, only=len(entries) == 1),
        )
        for entry in entries
    ]
    cache.close()
    return Survey(
        hostname=host.hostname,
        taken_at=host.now,
        sessions=tuple(session for session in sessions if selection.admits(session)),
        counts=dict(counts),
        unattributed=tuple(_list_process(one, advise(one, attributed.trust)) for one in attribution.unattributed),
        no_session_yet=tuple(_list_process(one, None) for one in attribution.no_session_yet),
        homes=tuple(home.home for home in facts.homes),
        degraded=(*asker.degraded, *facts.degraded, *_own_problems(config.problem, config.path, cache.problem, unseen)),
        skipped=tuple(facts.skipped),
        unlisted=tuple(facts.unlisted),
    )


class _Attributed(Struct, frozen=True):
    judged: Sequence[ClaimVerdict]
    attribution: Attribution
    trust: Trust | None
    """None when no agent runs and none is believed to: then no report matters."""


def _attribute(
    facts: Facts,
    judged: Sequence[ClaimVerdict],
    table: ProcessTable,
    host: HostFacts,
    asker: Asker,
    *,
    thorough: bool,
) -> _Attributed:
    """Which processes are accounted for, once every report that may be outdated counts as doubt, not as proof.

    `thorough`: also which session a process that is gone had last.
    """
    reported = any(one.liveness is Liveness.LIVE and one.claim.kind in BY_HOOK for one in judged)
    if not (facts.recognised or reported or (thorough and facts.journals)):
        return _Attributed(judged, Attribution(unattributed=(), no_session_yet=()), None)
    from corral.sessions.trust import decide_trust, find_implicated

    forget_directories()
    trust = decide_trust(facts, places.state_dir(), judged, host, asker)
    judged = doubt_outdated(judged, trust.outdated)
    attribution = _attribute_once(facts, judged, trust, table, host, asker)
    if implicated := find_implicated(facts, judged, attribution, table, asker):
        trust = structs.replace(trust, outdated={**trust.outdated, **implicated})
        judged = doubt_outdated(judged, implicated, WITNESS)
        attribution = _attribute_once(facts, judged, trust, table, host, asker)
    return _Attributed(judged, attribution, trust)


def _attribute_once(
    facts: Facts, judged: Sequence[ClaimVerdict], trust: Trust, table: ProcessTable, host: HostFacts, asker: Asker
) -> Attribution:
    from corral.sessions.trust import ask_reach, find_left, journal_writers

    named = {verdict.identity for verdict in judged if verdict.liveness is Liveness.LIVE and verdict.identity}
    told = journal_writers(facts, trust.outdated)
    left = find_left(facts, told)
    accounted = named | (told - left.keys())
    distrusted = _distrusted(facts) | {(one.pid, one.start_ticks) for one in trust.outdated}
    complete = {
        (home.provider.name, home.home.path, mode): evidence.within_s
        for home in facts.homes
        if not home.unclaimed
        for evidence in home.provider.capabilities.evidence
        for mode in evidence.modes
    }
    found = attribute(facts.recognised, accounted, trust.cover, host.now, distrusted, left, complete)
    providers = {home.provider.name: home.provider for home in facts.homes}

    def with_reach(one: Recognised) -> Recognised:
        process = table.find(one.identity.pid)
        if process is None or one.home is None or not one.shares_mounts or one.provider not in providers:
            return one  # a container may call its directories what it likes
        return structs.replace(one, reach=ask_reach(asker, providers[one.provider], process, one.home))

    return structs.replace(
        found,
        unattributed=tuple(map(with_reach, found.unattributed)),
        young=tuple(map(with_reach, found.young)),
    )


def _distrusted(facts: Facts) -> set[tuple[int, int]]:
    """PID and start ticks of processes whose journal can't be read, as its name says them, or lacks a report."""
    found = {(one.identity.pid, one.identity.start_ticks) for one in facts.journals if one.missed}
    for one in facts.unread_journals:
        pid, _, ticks = os.path.basename(one.path).removesuffix(".json").partition("-")
        if pid.isdecimal() and ticks.isdecimal():
            found.add((int(pid), int(ticks)))
    return found


def _list_process(process: Recognised, advice: str | None) -> AgentProcess:
    return AgentProcess(
        provider=process.provider,
        pid=process.identity.pid,
        started_at=process.started_at,
        home=process.home,
        mode=process.mode,
        terminal=process.terminal,
        work_dir=process.work_dir,
        advice=advice,
    )


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
