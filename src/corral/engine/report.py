"""The JSON that corral promises: versioned, stable, the same from every view. Documented in docs/json.md."""

from __future__ import annotations

from msgspec import Struct

from corral.model.restore import Attach, Loss, Refused, RestorePlan, Resume, Wait, list_commands, say_remedy
from corral.model.session import AgentProcess, Degraded, Session, Survey

SCHEMA = 1


class EvidenceReport(Struct, frozen=True, kw_only=True):
    """One claim and what became of it. `verdict` is live, stale, remote-host, unknown, or refused."""

    kind: str
    path: str
    pid: int | None
    hostname: str | None
    verdict: str
    rule: str
    reason: str


class RestoreReport(Struct, frozen=True, kw_only=True):
    """The way back in. `reason` is one of the closed list of refusals, and null for all other kinds."""

    kind: str
    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    pid: int | None = None
    terminal: str | None = None
    reason: str | None = None
    message: str | None = None
    remedy: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    loss: Loss | None = None


class SessionReport(Struct, frozen=True, kw_only=True):
    """One session. Times are epoch seconds."""

    provider: str
    home: str
    scope: str
    session_id: str
    state: str
    reason: str
    elsewhere: str | None
    silence: str | None
    activity: str | None
    durable: bool
    pid: int | None
    pids: tuple[int, ...]
    maybe_pids: tuple[int, ...]
    started_at: float | None
    created_at: float | None
    updated_at: float | None
    turn_started_at: float | None
    work_dir: str | None
    branch: str | None
    title: str | None
    unfinished: str | None
    waits_for: str | None
    archived: bool
    forked_from: str | None
    version: str | None
    model: str | None
    path: str | None
    conflict: str | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    evidence: tuple[EvidenceReport, ...]
    restore: RestoreReport


class SessionDocument(Struct, frozen=True, kw_only=True):
    """`corral show --json` and `corral explain --json`."""

    schema: int = SCHEMA
    session: SessionReport


class ProcessDocument(Struct, frozen=True, kw_only=True):
    """`corral pid --json`: a server process may serve several sessions."""

    schema: int = SCHEMA
    pid: int
    sessions: tuple[SessionReport, ...]


class RestoreDocument(Struct, frozen=True, kw_only=True):
    """`corral resume --print --json`."""

    schema: int = SCHEMA
    restore: RestoreReport


class SurveyReport(Struct, frozen=True, kw_only=True):
    """`corral ps --json`."""

    schema: int
    host: str
    generated_at: float
    sessions: tuple[SessionReport, ...]
    unattributed: tuple[AgentProcess, ...]
    no_session_yet: tuple[AgentProcess, ...]
    counts: dict[str, int]
    degraded: tuple[Degraded, ...]


def report_survey(survey: Survey) -> SurveyReport:
    return SurveyReport(
        schema=SCHEMA,
        host=survey.hostname,
        generated_at=survey.taken_at,
        sessions=tuple(report_session(session) for session in survey.sessions),
        unattributed=survey.unattributed,
        no_session_yet=survey.no_session_yet,
        counts={str(state): count for state, count in sorted(survey.counts.items())},
        degraded=survey.degraded,
    )


def report_session(session: Session) -> SessionReport:
    record = session.record
    verdict = session.verdict
    evidence = [
        EvidenceReport(
            kind=judged.claim.kind,
            path=judged.claim.path,
            pid=judged.claim.pid,
            hostname=judged.claim.hostname,
            verdict=judged.liveness,
            rule=judged.rule,
            reason=judged.reason,
        )
        for judged in verdict.evidence
    ]
    evidence += [
        EvidenceReport(
            kind=bad.kind,
            path=bad.path,
            pid=None,
            hostname=None,
            verdict="refused",
            rule="unreadable",
            reason=bad.reason,
        )
        for bad in verdict.bad_evidence
    ]
    return SessionReport(
        provider=session.provider,
        home=session.key.home,
        scope=session.key.scope,
        session_id=session.session_id,
        state=session.state,
        reason=verdict.reason,
        elsewhere=session.elsewhere,
        silence=session.silence,
        activity=session.activity,
        durable=session.durable,
        pid=session.pid,
        pids=session.pids,
        maybe_pids=verdict.maybe_pids,
        started_at=session.pid_started_at,
        created_at=record.created_at if record else None,
        updated_at=session.updated_at,
        turn_started_at=record.turn_started_at if record else None,
        work_dir=session.work_dir,
        branch=record.branch if record else None,
        title=session.title,
        unfinished=record.unfinished if record else None,
        waits_for=record.waits_for if record else None,
        archived=record.archived if record else False,
        forked_from=record.forked_from if record else None,
        version=session.version,
        model=session.model,
        path=record.path if record else None,
        conflict=verdict.conflict,
        notes=record.notes if record else (),
        warnings=session.warnings,
        evidence=tuple(evidence),
        restore=report_plan(session.restore),
    )


def report_plan(plan: RestorePlan) -> RestoreReport:
    match plan:
        case Attach():
            return RestoreReport(kind="attach", pid=plan.pid, terminal=plan.terminal)
        case Resume():
            return RestoreReport(kind="resume", argv=plan.argv, cwd=plan.cwd, env=plan.env)
        case Wait():
            return RestoreReport(kind="wait", pid=plan.pid)
        case Refused():
            return RestoreReport(
                kind="refused",
                reason=plan.reason,
                message=plan.message,
                remedy=say_remedy(plan.remedy),
                commands=list_commands(plan.remedy),
                loss=plan.loss,
            )
