"""The way into a session that somebody has: attach to it, wait for it, or leave it to the other host."""

from __future__ import annotations

from corral.model.restore import Attach, Refusal, Refused, Wait
from corral.model.verdict import SessionVerdict, State


def decide_served(verdict: SessionVerdict, *, terminal: str | None = None) -> Attach | Wait | Refused:
    """For a verdict of live, pending or elsewhere; nothing on disk matters then."""
    match verdict.state:
        case State.LIVE:
            return Attach(pid=verdict.processes[-1].pid, terminal=terminal)
        case State.PENDING:
            return Wait(pid=verdict.processes[-1].pid)
        case _:
            return Refused(
                reason=Refusal.CLAIMED_ELSEWHERE,
                message=verdict.reason,
                remedy=("go on with it there, or quit it there and try again",),
            )
