"""Ending the process that serves a session: hang up, ask, force; each only to the very process that was meant."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from msgspec import Struct

from corral.engine.naming import find_session, full_name
from corral.errors import CorralError
from corral.model.process import ProcessIdentity
from corral.model.session import Session
from corral.model.verdict import State
from corral.system.descriptors import is_ready
from corral.system.signal import NotSent, send_signal

_STEPS = ((signal.SIGHUP, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0))


class Ended(Struct, frozen=True, kw_only=True):
    """What happened to one process."""

    identity: ProcessIdentity
    by: str | None
    """The signal after which it ended; None when it had ended before any."""


def find_to_kill(name: str) -> Session:
    """A session that a verified process serves now, or the reason why nothing may be signalled."""
    session = find_session(name)
    if session.state is not State.LIVE or not session.verdict.processes:
        raise CorralError(
            f"{full_name(session)} is not verified live, so nothing is signalled: {session.verdict.reason}",
            hint=f"corral explain {full_name(session)} says what is known",
        )
    return session


def kill_session(session: Session, tell: Callable[[str], None]) -> list[Ended]:
    """End every process that serves it. Raises CorralError when what was agreed to is not so any more."""
    now = find_to_kill(full_name(session, with_home=True))
    if now.verdict.processes != session.verdict.processes:
        raise CorralError(f"{full_name(session)} is served by another process now: nothing was signalled")
    return [kill_process(identity, tell) for identity in session.verdict.processes]


def kill_process(identity: ProcessIdentity, tell: Callable[[str], None]) -> Ended:
    """One process, step by step, its identity verified before each. Raises CorralError if it can't be ended."""
    try:
        death = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return Ended(identity=identity, by=None)
    except OSError as error:
        raise CorralError(f"pid {identity.pid} can't be watched: {error.strerror}") from error
    try:
        last = None
        for number, wait_seconds in _STEPS:
            sent = send_signal(identity, number)
            if isinstance(sent, NotSent):
                if is_ready(death, 0.0):
                    return Ended(identity=identity, by=last)
                raise CorralError(f"{number.name} was not sent: {sent.reason}")
            last = number.name
            tell(f"pid {identity.pid}: {number.name} sent")
            if number is signal.SIGHUP:
                send_signal(identity, signal.SIGCONT)  # one that is stopped could not end
            if is_ready(death, wait_seconds):
                return Ended(identity=identity, by=last)
        raise CorralError(f"pid {identity.pid} did not end, not even by SIGKILL: the kernel holds it")
    finally:
        os.close(death)
