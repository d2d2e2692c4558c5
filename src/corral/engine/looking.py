"""One session looked at afresh: what is true of it now, and where the processes are that have it, or may have it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from corral.engine.naming import find_session
from corral.engine.restore import full_name_of
from corral.engine.whereabouts import InPane, InTab, InTerminal, Nowhere, Whereabouts, find_whereabouts
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.model.session import Session
from corral.sidecar.processes import read_identity


class Found(Struct, frozen=True):
    """A process that has the session or may have it, and where it is."""

    identity: ProcessIdentity
    where: Whereabouts


class Look(Struct, frozen=True):
    """What was found."""

    session: Session
    processes: tuple[Found, ...]


def look_at(key: SessionKey) -> Look:
    """Raises NotFound when nothing is left of it."""
    session = find_session(full_name_of(key))
    return Look(session, tuple(Found(one, find_whereabouts(one)) for one in _list_suspects(session)))


def say_where(found: Found) -> str:
    """In one sentence."""
    pid = found.identity.pid
    match where := found.where:
        case InTab():
            return f"pid {pid} runs in a terminal of corral"
        case InPane():
            return f"pid {pid} runs in tmux, pane {where.pane.name}"
        case InTerminal():
            keeper = f", a terminal of {where.keeper}" if where.keeper else ""
            return f"pid {pid} ({where.program}) runs on {where.tty}{keeper}"
        case Nowhere():
            return where.reason


def _list_suspects(session: Session) -> Iterator[ProcessIdentity]:
    """Not the numbers that claims of other machines and containers name: here they are somebody else's."""
    yield from session.verdict.processes
    for pid in session.verdict.maybe_pids:
        identity = read_identity(pid)
        if identity is not None and identity not in session.verdict.processes:
            yield identity
