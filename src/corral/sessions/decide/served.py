"""The way into a session that somebody has: attach to it, wait for it, or leave it to the other host."""

from __future__ import annotations

from corral.model.restore import Attach, Refusal, Refused, Wait
from corral.model.verdict import SessionVerdict, State


def is_served(verdict: SessionVerdict, *, anyway: bool = False) -> bool:
    """Whether somebody has it, so that nothing on disk matters.

    With `anyway` a claim from elsewhere does not count: the person says that nothing has it open there, and nobody
    here can tell.
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
