"""One judged session made into an answer: its details, and how to get back into it as things stand now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

from corral.machine.processes import ProcessTable
from corral.model.key import Home, SessionKey
from corral.model.record import SessionRecord
from corral.model.restore import Program, Refusal, Refused, RestorePlan, ResumeFacts
from corral.model.session import Session
from corral.model.verdict import Liveness, SessionVerdict
from corral.providers.asking import Asker
from corral.providers.contract import Environment, Provider
from corral.sessions.decide.served import decide_served, is_served
from corral.state.launches import Launch


class Answerer:
    """Answers for one survey; what several sessions share (programs, directories) is looked up once."""

    def __init__(
        self,
        *,
        env: Environment,
        table: ProcessTable,
        asker: Asker,
        launches: Sequence[Launch] = (),
        anyway: bool = False,
    ) -> None:
        self._env = env
        self._asker = asker
        self._anyway = anyway
        self._problems: dict[SessionKey, list[str]] = {}
        for launch in launches:
            if launch.problem is not None:
                self._problems.setdefault(launch.key, []).append(launch.problem)
        self._table = table
        self._is_dir = lru_cache(maxsize=None)(os.path.isdir)
        self._programs: dict[str, Program | None] = {}

    def answer(
        self,
        key: SessionKey,
        record: SessionRecord | None,
        verdict: SessionVerdict,
        provider: Provider,
        home: Home,
        *,
        closely: bool = False,
    ) -> Session:
        """`closely` reads the whole transcript where a resume could drop a part of it: for one session, not for all."""
        live = [claim for claim in verdict.evidence if claim.liveness is Liveness.LIVE]
        told = sorted(live or verdict.evidence, key=lambda claim: claim.claim.written_at or 0.0)
        newest = told[-1].claim if told else None
        work_dir = record.work_dir if record and record.work_dir else (newest.work_dir if newest else None)
        if record is not None and record.work_dir is None and work_dir is not None:
            record = _with_work_dir(record, work_dir)
        return Session(
            key=key,
            verdict=verdict,
            record=record,
            restore=self._plan(key, record, verdict, provider, home, closely),
            pid_started_at=newest.written_at if newest and live else None,
            work_dir=work_dir,
            version=newest.version if newest else None,
            model=newest.model if newest else None,
            warnings=tuple(self._problems.get(key, ())),
        )

    def _plan(
        self,
        key: SessionKey,
        record: SessionRecord | None,
        verdict: SessionVerdict,
        provider: Provider,
        home: Home,
        closely: bool,
    ) -> RestorePlan:
        if is_served(verdict, anyway=self._anyway):
            return decide_served(verdict, terminal=self._terminal(verdict))
        return self._asker.ask(
            provider,
            "plan how to resume",
            lambda: self._plan_resume(key, record, verdict, provider, home, closely),
            lambda reason: Refused(
                reason=Refusal.RESTORE_UNSUPPORTED, message=f"corral could not find out how to resume it: {reason}"
            ),
            about=str(key),
        )

    def _plan_resume(
        self,
        key: SessionKey,
        record: SessionRecord | None,
        verdict: SessionVerdict,
        provider: Provider,
        home: Home,
        closely: bool,
    ) -> RestorePlan:
        from corral.sessions.decide.restore import plan_restore

        program = self._program(provider)
        facts = ResumeFacts(
            home_exists=self._is_dir(home.path),
            work_dir_exists=record is not None and record.work_dir is not None and self._is_dir(record.work_dir),
            transcript_exists=record is not None and os.path.exists(provider.transcript.find_path(record)),
            program=program,
            guard=provider.transcript.read_guard(record) if record is not None else None,
            loss=provider.transcript.read_loss(record) if closely and record is not None else None,
        )
        ready = record is not None and record.work_dir is not None and program is not None
        return plan_restore(
            key.session_id,
            record,
            verdict,
            facts,
            provider.plan_resume(record, program, home) if ready and record and program else None,
            title=provider.capabilities.title,
            anyway=self._anyway,
        )

    def _program(self, provider: Provider) -> Program | None:
        """The CLI's program: the one the config names, else the provider's own search."""
        if provider.name not in self._programs:
            self._programs[provider.name] = self._asker.ask(
                provider, "find its program", lambda: provider.find_program(self._env), lambda _: None
            )
        return self._programs[provider.name]

    def _terminal(self, verdict: SessionVerdict) -> str | None:
        if not verdict.processes:
            return None
        process = self._table.find(verdict.processes[-1].pid)
        return process.terminal if process else None


def _with_work_dir(record: SessionRecord, work_dir: str) -> SessionRecord:
    """The directory that the serving process reported, where the provider's files do not say it."""
    import msgspec

    return msgspec.structs.replace(record, work_dir=work_dir)
