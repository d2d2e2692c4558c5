"""The public Python API: three questions about the sessions of this machine, answered from what is on disk now."""

from __future__ import annotations

from corral.model.selection import Selection
from corral.model.session import Session
from corral.model.verdict import State
from corral.sessions import find_session, take_survey
from corral.sessions import list_sessions as sessions

__all__ = ["session", "session_of", "sessions"]


def session(name: str) -> Session:
    """One session by its id, a unique prefix of it, or `provider:id`.

    Raises `corral.NotFound` if there is none, `corral.Ambiguous` (which lists the candidates) if there are several.
    """
    return find_session(name)


def session_of(pid: int) -> Session | None:
    """The session that process `pid` serves, or None when no verified claim names it.

    A server process may serve several: then this is the one it took last; `sessions()` has them all.
    """
    found = take_survey(Selection(states=frozenset({State.LIVE}), pid=pid)).sessions
    return max(found, key=lambda one: one.pid_started_at or 0.0, default=None)
