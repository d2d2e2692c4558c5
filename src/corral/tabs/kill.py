"""Ending the process that serves a session: hang up, ask, force; each signal only to the verified process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

from msgspec import Struct

from corral.errors import NotReachable, Silent
from corral.machine.descriptors import is_ready
from corral.machine.probe import NotSent, send_signal
from corral.machine.processes import ProcessTable
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.model.refusal import RefusedError, refuse
from corral.model.restore import Refusal, Refused
from corral.model.selection import Selection
from corral.model.session import Session
from corral.model.verdict import State
from corral.providers.registry import find_provider
from corral.sessions.naming import find_session, full_name, session_ref
from corral.sessions.survey import take_survey
from corral.tabs.listing import list_shared, list_tabs
from corral.terminals.client import Client
from corral.terminals.directory import terminals_dir

_STEPS = ((signal.SIGHUP, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0))
_LIVE = frozenset({State.LIVE})
_SERVED = frozenset({State.LIVE, State.PENDING})
_MOST_NAMED = 3


class Ended(Struct, frozen=True, kw_only=True):
    """What happened to one process."""

    identity: ProcessIdentity
    by: str | None
    """The signal after which it ended; None when it had ended before any."""


def find_to_kill(name: str | SessionKey, agreed: Session | None = None) -> Session:
    """A session that a verified process serves now, and that process serves no other. Raises RefusedError.

    `agreed` is the session as the person saw it: the same process must still serve it.
    """
    key = name if isinstance(name, SessionKey) else find_session(name).key
    survey = take_survey(Selection(states=_LIVE, besides=frozenset({key.session_id})), [find_provider(key.provider)])
    found = decide_end(key, survey.sessions, agreed)
    if isinstance(found, Refused):
        raise RefusedError(found)
    return found


def decide_end(key: SessionKey, sessions: Iterable[Session], agreed: Session | None = None) -> Session | Refused:
    """Whether what serves this session may be ended, given all sessions that are served."""
    named = {session.key: session for session in sessions}
    session, name = named.get(key), full_name(key)
    if session is None:
        return Refused(reason=Refusal.NO_SUCH_SESSION, message=f"{name}: there is no such session (any more)")
    if session.state is not State.LIVE or not session.verdict.processes:
        return Refused(
            reason=Refusal.NOT_LIVE,
            message=f"{name} is not verified live, so nothing is signalled: {session.verdict.reason}",
            remedy=(f"corral explain {name} says what is known",),
        )
    if agreed is not None and agreed.verdict.processes != session.verdict.processes:
        message = f"{name} is served by another process now: nothing was signalled"
        return Refused(reason=Refusal.SESSION_CHANGED, message=message)
    serving = set(session.verdict.processes)
    others = [
        one
        for one in named.values()
        if one.key != key and not one.is_subagent_of(key) and serving.intersection(one.verdict.processes)
    ]
    return _refuse_shared(f"the process of {name}", others) if others else session


def _refuse_shared(what: str, others: Iterable[Session]) -> Refused:
    names = sorted(full_name(one) for one in others)
    named = ", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")
    return Refused(
        reason=Refusal.SERVES_OTHERS,
        message=f"{what} serves other sessions too, and they would end with it ({named}): nothing was ended",
        remedy=("leave the session in the agent itself",),
    )


def kill_session(session: Session, report: Callable[[str], None]) -> list[Ended]:
    """End every process that serves it, as `find_to_kill` found it. Raises RefusedError."""
    return [kill_process(identity, report) for identity in session.verdict.processes]


def kill_process(identity: ProcessIdentity, report: Callable[[str], None]) -> Ended:
    """One process, step by step, its identity verified before each. Raises RefusedError if it can't be ended."""
    try:
        death = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return Ended(identity=identity, by=None)
    except OSError as error:
        raise refuse(Refusal.NOT_ENDED, f"pid {identity.pid} can't be watched: {error.strerror}") from error
    try:
        last = None
        for number, wait_seconds in _STEPS:
            sent = send_signal(identity, number)
            if isinstance(sent, NotSent):
                if is_ready(death, 0.0):
                    return Ended(identity=identity, by=last)
                raise refuse(Refusal.NOT_ENDED, f"{number.name} was not sent: {sent.reason}")
            last = number.name
            report(f"pid {identity.pid}: {number.name} sent")
            if number is signal.SIGHUP:
                send_signal(identity, signal.SIGCONT)  # one that is stopped could not end
            if is_ready(death, wait_seconds):
                return Ended(identity=identity, by=last)
        message = f"pid {identity.pid} did not end, even after SIGKILL: it is stuck in the kernel"
        raise refuse(Refusal.NOT_ENDED, message)
    finally:
        os.close(death)


def end_tab(tab: str, ref: str | None) -> None:
    """Ask its holder to end the program, if it still has the session that the person saw in it. Raises RefusedError."""
    survey = take_survey(Selection(states=_SERVED))
    found = next(iter(list_tabs([tab], survey).tabs), None)
    terminal = found.terminal if found is not None else None
    if terminal is not None and (shared := list_shared(terminal.child, survey, ProcessTable())):
        raise RefusedError(_refuse_shared("its program", shared))
    if ref is not None and (found is None or found.session is None or session_ref(found.session.key) != ref):
        raise refuse(Refusal.SESSION_CHANGED, "it has another conversation by now: nothing was ended")
    try:
        with Client(terminals_dir(), tab) as client:
            client.end()
            client.ask()  # it has heard when it answers
    except Silent as error:
        raise refuse(Refusal.NOT_ANSWERING, f"nothing was ended: {error}", error.remedy) from error
    except (NotReachable, OSError) as error:
        raise refuse(Refusal.NOT_RUNNING, f"its terminal is not there: {error}") from error
