"""The JSON that corral promises: versioned, stable, the same from every view. Documented in docs/json.md."""

from __future__ import annotations

from msgspec import Struct

from corral.model.restore import Attach, Loss, Refusal, Refused, RestorePlan, Resume, Wait, list_commands, say_remedy
from corral.model.session import AgentProcess, Degraded

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
    """How to get back in. `reason` is one of the closed list of refusals, and null for all other kinds."""

    kind: str
    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    pid: int | None = None
    terminal: str | None = None
    reason: Refusal | None = None
    message: str | None = None
    remedy: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    loss: Loss | None = None
    keep: tuple[str, ...] = ()


class SessionReport(Struct, frozen=True, kw_only=True):
    """One session. Times are epoch seconds. From `word` to `order` it is as every view shows it (Appearance)."""

    provider: str
    home: str
    scope: str
    session_id: str
    state: str
    reason: str
    elsewhere: str | None
    silence: str | None
    activity: str | None
    word: str
    sign: str
    colour: str
    since: float | None
    lost_at: float | None
    needs_you: bool
    order: tuple[float, ...]
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
    expires_at: float | None
    archived: bool
    forked_from: str | None
    parent_id: str | None
    foreground: bool | None
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


def report_plan(plan: RestorePlan) -> RestoreReport:
    match plan:
        case Attach():
            return RestoreReport(kind="attach", pid=plan.pid, terminal=plan.terminal)
        case Resume():
            return RestoreReport(kind="resume", argv=plan.argv, cwd=plan.cwd, env=plan.env, keep=plan.keep)
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
