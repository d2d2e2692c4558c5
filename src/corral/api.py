"""The public Python API: three questions about the sessions of this machine, answered from the truth on disk."""

from __future__ import annotations

from collections.abc import Collection

from corral.engine.catalogue import find_provider
from corral.engine.naming import find_session
from corral.engine.selection import Selection
from corral.engine.survey import take_survey
from corral.model.session import Session
from corral.model.verdict import State


def sessions(*, provider: str | None = None, states: Collection[State] | None = None) -> list[Session]:
    """Every session on this machine as it is now, newest first; narrowed to a provider or to some states.

    Reads disk and process table; starts nothing, writes nothing of a provider's. Takes about as long as `corral ps`.
    """
    survey = take_survey(
        Selection(states=frozenset(states) if states is not None else None),
        [find_provider(provider)] if provider is not None else None,
    )
    return sorted(survey.sessions, key=lambda session: session.updated_at or 0.0, reverse=True)


def session(name: str) -> Session:
    """One session by its id, a unique prefix of it, or `provider:id`.

    Raises `corral.NotFound` when nothing is called so, `corral.Ambiguous` (listing the candidates) when several are.
    """
    return find_session(name)


def session_of(pid: int) -> Session | None:
    """The session that process `pid` serves, or None when no verified claim names it.

    A server process may serve several: then it is the one it took last; `sessions()` has them all.
    """
    found = take_survey(Selection(states=frozenset({State.LIVE}), pid=pid)).sessions
    return max(found, key=lambda one: one.pid_started_at or 0.0, default=None)
