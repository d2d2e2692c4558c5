"""Sessions by the names people type: an id, a unique prefix of it, or `provider:id`; never a guess."""

from __future__ import annotations

from corral.engine.catalogue import all_providers, find_provider
from corral.engine.selection import Selection
from corral.engine.survey import take_survey
from corral.errors import Ambiguous, CorralError, NotFound
from corral.model.key import is_valid_id, spoken_id
from corral.model.restore import Refusal
from corral.model.session import Session


def find_session(name: str, *, anyway: bool = False, probing: bool = False) -> Session:
    """The one session called so. Ambiguous names list the candidates and do nothing."""
    provider_name, scope, wanted = _parse(name)
    providers = [find_provider(provider_name)] if provider_name else None
    found = take_survey(Selection(id_prefix=wanted), providers, anyway=anyway, probing=probing).sessions
    if scope is not None:
        found = tuple(session for session in found if session.key.scope == scope)
    exact = [session for session in found if wanted in (session.session_id, spoken_id(session.session_id))]
    candidates = exact or list(found)
    if not candidates:
        raise NotFound(f"no session is called {name!r}", hint="corral ps --all lists them")
    if len(candidates) > 1:
        listed = "\n".join(
            f"  {full_name(session)}  {session.state}  {session.work_dir or ''}" for session in candidates
        )
        raise Ambiguous(f"{name!r} could be any of {len(candidates)} sessions:\n{listed}")
    return candidates[0]


def full_name(session: Session) -> str:
    """A name that is never ambiguous within one home."""
    key = session.key
    return f"{key.provider}:{key.scope}/{key.session_id}" if key.scope else f"{key.provider}:{key.session_id}"


def _parse(name: str) -> tuple[str | None, str | None, str]:
    provider, colon, rest = name.rpartition(":")
    if colon and provider not in {known.name for known in all_providers()}:
        raise CorralError(
            f"no provider is called {provider!r}",
            hint="there are: " + ", ".join(known.name for known in all_providers()),
            exit_code=2,
        )
    scope, slash, wanted = rest.rpartition("/")
    if not is_valid_id(wanted) or (slash and not is_valid_id(scope.lstrip("-"))):
        raise CorralError(
            f"{name!r} is not a session id ({Refusal.IDENTITY_INVALID})",
            hint="an id is letters, digits, '.', '_' and '-'; corral ps --all lists them",
        )
    return provider or None, scope if slash else None, wanted
