"""Makes the JSON that corral promises of what it found: the same from every view."""

from __future__ import annotations

from corral.model.session import Session, Survey
from corral.model.session_report import SCHEMA, EvidenceReport, SessionReport, SurveyReport, report_plan
from corral.sessions.decide.state import decide_appearance


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


def report_session(session: Session, *, dismissed: bool = False) -> SessionReport:
    """`dismissed`: the person has dismissed this loss."""
    record = session.record
    shown = decide_appearance(session, dismissed=dismissed)
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
        word=shown.word,
        sign=shown.sign,
        colour=shown.colour,
        since=shown.since,
        lost_at=shown.lost_at,
        needs_you=shown.needs_you,
        order=shown.order,
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
        waits_for=session.waits_for,
        expires_at=record.expires_at if record else None,
        archived=record.archived if record else False,
        forked_from=record.forked_from if record else None,
        parent_id=record.parent_id if record else None,
        foreground=session.foreground,
        version=session.version,
        model=session.model,
        path=record.path if record else None,
        conflict=verdict.conflict,
        notes=record.notes if record else (),
        warnings=session.warnings,
        evidence=tuple(evidence),
        restore=report_plan(session.restore),
    )
