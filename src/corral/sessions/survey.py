"""The survey: facts gathered, every claim judged, every session given its state, the selected ones answered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import structs

from corral.machine import places
from corral.machine.host import read_host_facts
from corral.machine.processes import ProcessTable
from corral.model.key import SessionKey
from corral.model.known import BrokenCache
from corral.model.record import SessionRecord
from corral.model.restore import Program, Refusal, Refused, RestorePlan, ResumeFacts
from corral.model.selection import Selection
from corral.model.session import AgentProcess, Degraded, Session, Survey
from corral.model.verdict import Liveness, SessionVerdict, State
from corral.providers.asking import Asker
from corral.providers.contract import Environment, Provider
from corral.providers.settings import read_settings
from corral.sessions.cache import Cache
from corral.sessions.decide.attribution import BY_HOOK, Attribution
from corral.sessions.decide.restore import decide_served, is_served, plan_restore
from corral.sessions.entries import Entry, select_entries
from corral.sessions.gather import environment, find_program, gather
from corral.sessions.judging import judge_claims
from corral.state.launches import Launch, Launches


def take_survey(
    selection: Selection,
    providers: Iterable[Provider] | None = None,
    *,
    anyway: bool = False,
    probing: bool = False,
    remembered: Sequence[SessionRecord] | None = None,
) -> Survey:
    """What is true of this machine now. Needs no daemon, and changes nothing of a provider's.

    `anyway` plans restores as if nothing could be open unseen (`corral resume --anyway`). Only with `probing` is
    a provider's program run, and then only for its `--version`, where its files do not say what it is.
    `remembered` are the sessions that the last survey read, taken for all there are: only processes have changed.
    """
    cache = Cache(places.cache_dir())
    try:
        return _take_survey(cache, selection, providers, anyway, probing, remembered)
    except BrokenCache:
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
    judged = judge_claims(facts, host, cache, launches)
    attribution, advised = Attribution(), ()
    reported = any(one.liveness is Liveness.LIVE and one.claim.kind in BY_HOOK for one in judged)
    if facts.recognised or reported or (thorough and facts.journals):  # else no agent runs, and no report matters
        from corral.sessions.trust import attribute_processes

        judged, attribution, advised = attribute_processes(facts, judged, table, host, asker)
    counts: Counter[State] = Counter()
    unseen = None if table.is_readable else "running processes can't be seen here, so any of them could have it open"
    entries = list(select_entries(facts, judged, attribution, selection, counts, unseen))
    answerer = _Answerer(env=env, table=table, asker=asker, launches=launches, anyway=anyway)
    sessions = [
        answerer.answer(entry, closely=selection.names(entry.key.session_id, only=len(entries) == 1))
        for entry in entries
    ]
    cache.close()
    own_problems = {"read /proc": unseen, f"read {config.path}": config.problem, "use the cache": cache.problem}
    return Survey(
        hostname=host.hostname,
        taken_at=host.now,
        sessions=tuple(session for session in sessions if selection.admits(session)),
        counts=dict(counts),
        unattributed=advised,
        no_session_yet=tuple(AgentProcess.of(one) for one in attribution.no_session_yet),
        homes=tuple(home.home for home in facts.homes),
        degraded=(
            *asker.degraded,
            *facts.degraded,
            *(Degraded(provider="corral", step=step, reason=why) for step, why in own_problems.items() if why),
        ),
        skipped=tuple(facts.skipped),
        unlisted=tuple(facts.unlisted),
    )


class _Answerer:
    """Makes judged sessions into answers; what several of them share (programs, directories) is looked up once."""

    def __init__(
        self, *, env: Environment, table: ProcessTable, asker: Asker, launches: Sequence[Launch], anyway: bool
    ) -> None:
        self._env = env
        self._table = table
        self._asker = asker
        self._anyway = anyway
        self._problems: dict[SessionKey, list[str]] = {}
        for launch in launches:
            if launch.problem is not None:
                self._problems.setdefault(launch.key, []).append(launch.problem)
        self._is_dir = lru_cache(maxsize=None)(os.path.isdir)
        self._programs: dict[str, Program | None] = {}

    def answer(self, entry: Entry, *, closely: bool) -> Session:
        """`closely` reads the whole transcript where a resume could drop a part of it: for one session, not for all."""
        record, verdict = entry.record, entry.verdict
        live = [claim for claim in verdict.evidence if claim.liveness is Liveness.LIVE]
        said = sorted(live or verdict.evidence, key=lambda claim: claim.claim.written_at or 0.0)
        newest = said[-1].claim if said else None
        work_dir = record.work_dir if record and record.work_dir else (newest.work_dir if newest else None)
        if record is not None and record.work_dir is None and work_dir is not None:
            # The provider's files do not say it, and the serving process does.
            record = structs.replace(record, work_dir=work_dir)
        return Session(
            key=entry.key,
            verdict=verdict,
            record=record,
            restore=self._plan(structs.replace(entry, record=record), closely),
            pid_started_at=newest.written_at if newest and live else None,
            work_dir=work_dir,
            version=newest.version if newest else None,
            model=newest.model if newest else None,
            warnings=tuple(self._problems.get(entry.key, ())),
        )

    def _plan(self, entry: Entry, closely: bool) -> RestorePlan:
        """How to get back into it as things are now."""
        if is_served(entry.verdict, anyway=self._anyway):
            return decide_served(entry.verdict, terminal=self._terminal(entry.verdict))
        return self._asker.ask(
            entry.facts.provider,
            "plan how to resume",
            lambda: self._plan_resume(entry, closely),
            lambda reason: Refused(
                reason=Refusal.RESTORE_UNSUPPORTED, message=f"corral could not find out how to resume it: {reason}"
            ),
            about=str(entry.key),
        )

    def _plan_resume(self, entry: Entry, closely: bool) -> RestorePlan:
        record, provider, home = entry.record, entry.facts.provider, entry.facts.home
        program = self._program(provider)
        facts = ResumeFacts(
            home_exists=self._is_dir(home.path),
            work_dir_exists=record is not None and record.work_dir is not None and self._is_dir(record.work_dir),
            transcript_exists=record is not None and os.path.exists(provider.transcript.find_path(record)),
            program=program,
            guard=provider.transcript.read_guard(record) if record is not None else None,
            loss=provider.transcript.read_loss(record) if closely and record is not None else None,
        )
        resume = None
        if record is not None and record.work_dir is not None and program is not None:
            resume = provider.plan_resume(record, program, home)
        return plan_restore(
            entry.key.session_id,
            record,
            entry.verdict,
            facts,
            resume,
            title=provider.capabilities.title,
            anyway=self._anyway,
        )

    def _program(self, provider: Provider) -> Program | None:
        if provider.name not in self._programs:
            self._programs[provider.name] = find_program(provider, self._env, self._asker)
        return self._programs[provider.name]

    def _terminal(self, verdict: SessionVerdict) -> str | None:
        process = self._table.find(verdict.processes[-1].pid) if verdict.processes else None
        return process.terminal if process else None
