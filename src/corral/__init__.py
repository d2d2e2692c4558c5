"""corral knows every coding-agent session on the machine. The public Python API:

    corral.sessions()          every session, judged now
    corral.session("5d3909")   one session by id, unique prefix or provider:id
    corral.session_of(4711)    the session that a process serves, or None

`corral.sidecar` (the runtime.json protocol) needs nothing else of corral and nothing outside the standard library.
"""

from __future__ import annotations

from corral.version import __version__

TYPE_CHECKING = False  # as of `typing`, which a user of `corral.sidecar` need not import

if TYPE_CHECKING:
    from corral.api import session, session_of, sessions
    from corral.errors import Ambiguous, CorralError, NotFound
    from corral.model.key import SessionKey
    from corral.model.restore import Attach, Refusal, Refused, Resume, Wait
    from corral.model.session import Session
    from corral.model.verdict import Activity, State

__all__ = [
    "Activity",
    "Ambiguous",
    "Attach",
    "CorralError",
    "NotFound",
    "Refusal",
    "Refused",
    "Resume",
    "Session",
    "SessionKey",
    "State",
    "Wait",
    "__version__",
    "session",
    "session_of",
    "sessions",
]

_HOMES = {
    "Activity": "corral.model.verdict",
    "Ambiguous": "corral.errors",
    "CorralError": "corral.errors",
    "NotFound": "corral.errors",
    "Attach": "corral.model.restore",
    "Refusal": "corral.model.restore",
    "Refused": "corral.model.restore",
    "Resume": "corral.model.restore",
    "Wait": "corral.model.restore",
    "Session": "corral.model.session",
    "SessionKey": "corral.model.key",
    "State": "corral.model.verdict",
    "session": "corral.api",
    "session_of": "corral.api",
    "sessions": "corral.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'corral' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
