"""Names of sessions: an id, a unique prefix of it, or `provider:id`, never a guess; and short handles for views."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from typing import NamedTuple

from corral.errors import Ambiguous, CorralError, NotFound
from corral.model.key import SessionKey, is_valid_id, spoken_id
from corral.model.refusal import RefusedError
from corral.model.restore import Refusal, Refused
from corral.model.selection import Selection
from corral.model.session import Session
from corral.providers.registry import find_provider
from corral.sessions.survey import take_survey


def find_session(name: str, *, anyway: bool = False, probing: bool = False) -> Session:
    """The one session of that name. Raises NotFound, or Ambiguous with the candidates."""
    wanted = parse_name(name)
    providers = [find_provider(wanted.provider)] if wanted.provider else None
    found = take_survey(Selection(id_prefix=wanted.session_id), providers, anyway=anyway, probing=probing).sessions
    if wanted.home is not None:
        found = tuple(session for session in found if session.key.home == wanted.home)
    if wanted.scope is not None:
        found = tuple(session for session in found if session.key.scope == wanted.scope)
    exact = [one for one in found if wanted.session_id in (one.session_id, spoken_id(one.session_id))]
    candidates = exact or list(found)
    if not candidates:
        raise NotFound(f"no session named {name!r}", hint="corral ps --all lists them")
    if len(candidates) > 1:
        raise Ambiguous(f"{name!r} could be any of {len(candidates)} sessions:", _list(candidates))
    return candidates[0]


def find_by_key(key: SessionKey, *, anyway: bool = False, probing: bool = False, deleted: bool = False) -> Session:
    """This session as it is now. `deleted`: also if only a claim is left of it. Raises RefusedError if nothing is."""
    selection = Selection(id_prefix=key.session_id, deleted=deleted)
    survey = take_survey(selection, [find_provider(key.provider)], anyway=anyway, probing=probing)
    for session in survey.sessions:
        if session.key == key:
            return session
    message = "there is no such session (any more)"
    raise RefusedError(Refused(reason=Refusal.NO_SUCH_SESSION, message=message), full_name(key), exit_code=4)


def full_name(session: Session | SessionKey, *, with_home: bool = False) -> str:
    """A name that is not ambiguous within one home, or, with the home in it, at all."""
    key = session if isinstance(session, SessionKey) else session.key
    where = f"{key.provider}@{key.home}" if with_home else key.provider
    return f"{where}:{key.scope}/{key.session_id}" if key.scope else f"{where}:{key.session_id}"


def _list(candidates: list[Session]) -> list[str]:
    homes = {(one.provider, one.key.home) for one in candidates}
    with_home = len(homes) > len({provider for provider, _ in homes})
    return [f"{full_name(one, with_home=with_home)}  {one.state}  {one.work_dir or ''}" for one in candidates]


class Name(NamedTuple):
    """What a person typed, taken apart: [provider[@home]:][scope/]id."""

    provider: str | None
    home: str | None
    scope: str | None
    session_id: str


def parse_name(name: str) -> Name:
    """Raises CorralError when it can't be a session's name."""
    before, colon, rest = name.rpartition(":")
    provider, _, home = before.partition("@")
    if colon:
        find_provider(provider)
    scope, slash, session_id = rest.rpartition("/")
    if not is_valid_id(session_id) or (slash and not is_valid_id(scope.lstrip("-"))):
        raise CorralError(
            f"{name!r} is not a session id ({Refusal.IDENTITY_INVALID})",
            hint="an id is letters, digits, '.', '_' and '-'; corral ps --all lists them",
        )
    return Name(provider or None, os.path.expanduser(home) if home else None, scope if slash else None, session_id)


# --- handles for views


def session_ref(key: SessionKey) -> str:
    """16 hex digits; the same as long as provider, home, scope and id are."""
    text = "\0".join((key.provider, _real(key.home), key.scope, key.session_id))
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


@lru_cache(maxsize=256)
def _real(home: str) -> str:
    return os.path.realpath(home)
