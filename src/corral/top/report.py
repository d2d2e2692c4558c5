"""The JSON of what sessions use, for `corral top --json` and `corral show --json`. Documented in docs/json.md."""

from __future__ import annotations

from msgspec import Struct

from corral.model.key import SessionKey
from corral.model.metering import Adopted, MeteredSession, Metering, Use
from corral.model.session import Degraded, Session
from corral.model.session_report import SCHEMA, SessionReport
from corral.sessions.report import report_session


class UseReport(Struct, frozen=True, kw_only=True):
    """What processes use; null with a `reason` where that is not known."""

    processes: int | None
    cpu_seconds: float | None
    memory_bytes: int | None
    memory_kind: str | None
    unreadable: int
    pids: tuple[int, ...]
    adopted: tuple[Adopted, ...] = ()
    reason: str | None = None


class MeteredReport(Struct, frozen=True, kw_only=True):
    """One session."""

    provider: str
    home: str
    scope: str
    session_id: str
    state: str
    title: str | None
    work_dir: str | None
    uses: UseReport


class SharedReport(Struct, frozen=True, kw_only=True):
    """A process that serves several sessions, with its descendants."""

    pid: int
    name: str
    sessions: tuple[SessionKey, ...]
    uses: UseReport


class StrayReport(Struct, frozen=True, kw_only=True):
    """A process that may be a session's, with its descendants."""

    pid: int
    name: str
    maybe: tuple[SessionKey, ...]
    reason: str
    uses: UseReport


class TopDocument(Struct, frozen=True, kw_only=True):
    """`corral top --json`."""

    schema: int = SCHEMA
    host: str
    generated_at: float
    sessions: tuple[MeteredReport, ...]
    shared: tuple[SharedReport, ...]
    unattributed: tuple[StrayReport, ...]
    degraded: tuple[Degraded, ...]


class ShowDocument(Struct, frozen=True, kw_only=True):
    """`corral show --json`; `uses` is null of a session that nobody serves."""

    schema: int = SCHEMA
    session: SessionReport
    uses: UseReport | None


def report_metering(metering: Metering) -> TopDocument:
    return TopDocument(
        host=metering.hostname,
        generated_at=metering.taken_at,
        sessions=tuple(_report_session(one) for one in metering.sessions),
        shared=tuple(
            SharedReport(
                pid=one.tree.pid, name=one.name, sessions=one.tree.sessions, uses=_report_use(one.use, one.tree.pids)
            )
            for one in metering.shared
        ),
        unattributed=tuple(
            StrayReport(
                pid=one.tree.pid,
                name=one.name,
                maybe=one.tree.sessions,
                reason=one.tree.reason or "",
                uses=_report_use(one.use, one.tree.pids),
            )
            for one in metering.strays
        ),
        degraded=metering.degraded,
    )


def report_shown(session: Session, metered: MeteredSession | None) -> ShowDocument:
    return ShowDocument(session=report_session(session), uses=_report_metered(metered) if metered else None)


def _report_session(one: MeteredSession) -> MeteredReport:
    session = one.session
    return MeteredReport(
        provider=session.provider,
        home=session.key.home,
        scope=session.key.scope,
        session_id=session.session_id,
        state=session.state,
        title=session.title,
        work_dir=session.work_dir,
        uses=_report_metered(one),
    )


def _report_metered(one: MeteredSession) -> UseReport:
    return _report_use(one.use, one.pids, one.adopted, one.reason)


def _report_use(
    use: Use | None, pids: tuple[int, ...], adopted: tuple[Adopted, ...] = (), reason: str | None = None
) -> UseReport:
    return UseReport(
        processes=use.processes if use else None,
        cpu_seconds=round(use.cpu_seconds, 2) if use else None,
        memory_bytes=use.memory_bytes if use else None,
        memory_kind=use.memory_kind if use else None,
        unreadable=use.unreadable if use else 0,
        pids=pids,
        adopted=adopted,
        reason=reason,
    )
