"""The survey: facts gathered, every claim judged, every session given its state, the selected ones answered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from corral.engine.answer import Answerer
from corral.engine.entries import select_entries
from corral.engine.gather import Facts, environment, gather
from corral.engine.judging import accounted_processes, judge_claims, launch_claims
from corral.engine.selection import Selection
from corral.engine.settings import read_settings
from corral.model.process import Recognised
from corral.model.record import SessionRecord
from corral.model.session import AgentProcess, Degraded, Survey
from corral.model.verdict import State
from corral.providers import Provider
from corral.store.cache import Cache
from corral.store.known import BrokenShelf
from corral.store.launches import Launches
from corral.system import places
from corral.system.host import read_host_facts
from corral.system.processes import ProcessTable
from corral.verdicts.attribution import HookCover, attribute

if TYPE_CHECKING:
    from corral.hooks.installed import Installation


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
    facts = gather(env, places.state_dir(), cache, table, host, providers, thorough=thorough, remembered=remembered)
    launches = Launches(places.state_dir()).read_all()
    judged = judge_claims(facts, host, cache, launch_claims(launches))
    accounted = accounted_processes(facts, judged)
    attribution = attribute(facts.recognised, accounted, {})
    installations: list[Installation] = []
    distrusted = _distrusted(facts)
    if attribution.unattributed:
        installations = _read_installations(facts)
        cover = _hook_cover(installations, facts)
        attribution = attribute(facts.recognised, accounted, cover, host.now, distrusted)
    counts: Counter[State] = Counter()
    unseen = None if table.is_readable else "running processes can't be seen here, so any of them could have it open"
    entries = list(select_entries(facts, judged, attribution, selection, counts, unseen))
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
        unattributed=_listed(attribution.unattributed, installations, distrusted, advise=True),
        no_session_yet=_listed(attribution.no_session_yet, installations, distrusted, advise=False),
        homes=tuple(home.home for home in facts.homes),
        degraded=(*facts.degraded, *_own_problems(config.problem, config.path, cache.problem, unseen)),
        skipped=tuple(facts.skipped),
    )


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
    """PID and start ticks of processes whose journal can't be read, as its name says them, or lacks a report."""
    found = {(one.identity.pid, one.identity.start_ticks) for one in facts.journals if one.missed}
    for one in facts.unread_journals:
        pid, _, ticks = os.path.basename(one.path).removesuffix(".json").partition("-")
        if pid.isdecimal() and ticks.isdecimal():
            found.add((int(pid), int(ticks)))
    return found


def _listed(
    processes: Sequence[Recognised],
    installations: Sequence[Installation],
    distrusted: Collection[tuple[int, int]],
    *,
    advise: bool,
) -> tuple[AgentProcess, ...]:
    listed: list[AgentProcess] = []
    for process in processes:
        advice = f"corral hooks install {process.provider}"
        if any(
            found.present and found.provider == process.provider and process.home in (None, found.home)
            for found in installations
        ):
            is_distrusted = (process.identity.pid, process.identity.start_ticks) in distrusted
            why = "what it reported is not known" if is_distrusted else "it started before the hooks were installed"
            advice = f"restart pid {process.identity.pid}: {why}"
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
