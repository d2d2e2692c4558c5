"""How to get back into one session: a pure decision from its verdict and what the disk says now."""

from __future__ import annotations

from corral.model.key import is_valid_id
from corral.model.record import SessionRecord
from corral.model.restore import Attach, Command, Loss, Refusal, Refused, RestorePlan, Resume, ResumeFacts, Wait
from corral.model.verdict import Liveness, SessionVerdict, State


def plan_restore(
    session_id: str,
    record: SessionRecord | None,
    verdict: SessionVerdict,
    facts: ResumeFacts,
    resume: Resume | Refused | None,
    *,
    title: str,
    anyway: bool = False,
) -> RestorePlan:
    """`resume` is what the provider would start, None when it has no proven way or no program is found.

    `anyway` overrides `maybe_open` and `claimed_elsewhere`, and nothing else. `title` is how people call the provider.
    """
    if not is_valid_id(session_id):
        return _refuse(Refusal.IDENTITY_INVALID, "its id is not valid")
    if is_served(verdict, anyway=anyway):
        return decide_served(verdict)
    if not anyway and (doubt := _maybe_open(verdict)):
        return doubt
    if not facts.home_exists:
        return _refuse(Refusal.HOME_MISSING, "its provider's home directory is gone")
    if record is None or not facts.transcript_exists:
        return _refuse(Refusal.TRANSCRIPT_MISSING, "its conversation is not on disk (any more)")
    if not record.durable:
        why = record.not_durable_reason or "its provider wrote nothing to resume"
        return _refuse(Refusal.NOT_DURABLE, f"there is nothing to resume: {why}")
    if record.work_dir is None:
        return facts.guard or _refuse(Refusal.WORK_DIR_MISSING, "its provider does not say in which directory it ran")
    if not facts.work_dir_exists:
        return _refuse(
            Refusal.WORK_DIR_MISSING,
            f"its directory {record.work_dir} is gone",
            f"bring {record.work_dir} back, then try again",
        )
    if facts.guard is not None:
        return facts.guard
    if facts.program is None:
        return _refuse(
            Refusal.PROVIDER_MISSING,
            f"{title} is not installed, or not on PATH",
            "install it, or name its program in the config: corral config path",
        )
    if facts.program.problem is not None:
        return _refuse(Refusal.PROVIDER_UNSUPPORTED, f"{facts.program.path}: {facts.program.problem}")
    if resume is None:
        return _refuse(Refusal.RESTORE_UNSUPPORTED, f"corral has no proven way to resume a session of {title}")
    if isinstance(resume, Refused):
        return resume
    return _refuse_loss(session_id, resume, facts.loss, title) if facts.loss is not None else resume


def _refuse_loss(session_id: str, resume: Resume, loss: Loss, title: str) -> Refused:
    """Only a person may agree to this: what is dropped is gone from the conversation for good."""
    lines, prompts = _count(loss.lines, "line"), _count(loss.prompts, "prompt")
    return Refused(
        reason=Refusal.TRANSCRIPT_MISSING,
        message=(
            f"line {loss.line} of {loss.path} is damaged: {title} would drop it for good, "
            f"and the {lines} after it ({prompts})"
        ),
        remedy=(
            f"fix line {loss.line}, or remove it",
            "or go on without them; corral keeps a copy first:",
            Command(f"corral resume {session_id} --drop-from {loss.line}"),
        ),
        loss=loss,
        agreed=resume,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def refuse_live(plan: Attach) -> Refused:
    """What a resume answers about a session that is being served."""
    where = f" on {plan.terminal}" if plan.terminal else ""
    return _refuse(
        Refusal.ALREADY_LIVE,
        f"pid {plan.pid} serves it{where}",
        f"corral attach goes there; or quit pid {plan.pid} first",
    )


def refuse_starting(plan: Wait) -> Refused:
    """What a resume answers about a session that corral has just started."""
    return _refuse(Refusal.ALREADY_LIVE, f"pid {plan.pid} is starting it right now")


def _maybe_open(verdict: SessionVerdict) -> Refused | None:
    if not verdict.may_be_served:
        return None
    pids = list(verdict.maybe_pids)
    pids += [claim.claim.pid for claim in verdict.evidence if claim.liveness in (Liveness.LIVE, Liveness.UNKNOWN)]
    named = ", ".join(str(pid) for pid in dict.fromkeys(pids))
    return _refuse(
        Refusal.MAYBE_OPEN,
        verdict.reason,
        *([f"quit pid {named} and try again"] if named else []),
        "resume it anyway with --anyway, if you know that it is not open there",
    )


def _refuse(reason: Refusal, message: str, *remedy: str) -> Refused:
    return Refused(reason=reason, message=message, remedy=remedy)


# --- of a session that somebody has


def is_served(verdict: SessionVerdict, *, anyway: bool = False) -> bool:
    """Whether somebody has it, so that nothing on disk matters.

    With `anyway` a claim from elsewhere does not count: the person says that nothing has it open there, and nobody
    here can check.
    """
    return verdict.state in (State.LIVE, State.PENDING) or (verdict.state is State.ELSEWHERE and not anyway)


def decide_served(verdict: SessionVerdict, *, terminal: str | None = None) -> Attach | Wait | Refused:
    """For a verdict of live, pending or elsewhere."""
    match verdict.state:
        case State.LIVE:
            return Attach(pid=verdict.processes[-1].pid, terminal=terminal)
        case State.PENDING:
            return Wait(pid=verdict.processes[-1].pid)
        case _:
            return Refused(
                reason=Refusal.CLAIMED_ELSEWHERE,
                message=verdict.reason,
                remedy=(
                    "continue it there, or quit it there and try again",
                    "resume it anyway with --anyway, if you know that it is not open there: "
                    "two agents on one conversation overwrite each other",
                ),
            )
