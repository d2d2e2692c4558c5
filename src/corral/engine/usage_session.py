"""The session that a question about usage names: on disk, or known to the ledger alone."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from corral.engine.catalogue import all_providers
from corral.engine.gather import environment
from corral.engine.naming import Name, parse_name
from corral.engine.settings import read_settings
from corral.engine.told_sessions import ToldSessions
from corral.engine.usage_families import Ties
from corral.engine.usage_homes import list_usage_homes
from corral.engine.usage_types import UsageQuery
from corral.errors import Ambiguous, NotFound
from corral.model.key import spoken_id
from corral.model.usage import UsageSource
from corral.providers import Provider
from corral.store.cache import Cache
from corral.store.ledger import Ledger
from corral.store.ledger_lookup import list_sessions
from corral.system import places


class NamedSession(Struct, frozen=True, kw_only=True):
    """One session and the files in which its usage can stand."""

    provider: Provider
    home: str
    scope: str
    session_id: str
    work_dir: str | None
    sources: tuple[UsageSource, ...]
    """Its own logs, then files of the whole home, then those of its forks: they hold copies."""

    @property
    def name(self) -> str:
        scope = f"{self.scope}/" if self.scope else ""
        return f"{self.provider.name}:{scope}{self.session_id}"


class _Candidate(Struct):
    scope: str = ""
    work_dir: str | None = None


def find_named(ledger: Ledger, name: str) -> NamedSession:
    """The one session called so. Raises NotFound or Ambiguous."""
    wanted = parse_name(name)
    sources = {provider.name: list(_list_sources(ledger, provider, wanted)) for provider in all_providers()}
    found: dict[tuple[str, str, str, str], _Candidate] = {}
    for provider, home, scope, session_id, work_dir in _list_known(ledger, sources):
        if _fits(wanted, provider, home, scope, session_id):
            # A file of the whole home names a session without its container.
            key = (provider, home, session_id, scope)
            bare = found.pop((provider, home, session_id, ""), None)
            if not scope and any(other[:3] == key[:3] for other in found):
                continue
            candidate = found.setdefault(key, bare or _Candidate())
            candidate.scope = scope or candidate.scope
            candidate.work_dir = work_dir or candidate.work_dir
    exact = {key: one for key, one in found.items() if wanted.session_id in (key[2], spoken_id(key[2]))}
    candidates = exact or found
    if not candidates:
        hint = "corral usage --by session lists those that used anything"
        raise NotFound(f"no session is called {name!r}", hint=hint)
    if len(candidates) > 1:
        lines = "\n".join(f"  {key[0]}@{key[1]}:{key[3]}/{key[2]}".replace(":/", ":") for key in sorted(candidates))
        raise Ambiguous(f"{name!r} could be any of {len(candidates)} sessions:\n{lines}")
    ((provider, home, session_id, scope), candidate) = next(iter(candidates.items()))
    return NamedSession(
        provider=next(one for one in all_providers() if one.name == provider),
        home=home,
        scope=scope,
        session_id=session_id,
        work_dir=candidate.work_dir,
        sources=tuple(_choose(sources[provider], home, scope, session_id)),
    )


def narrow_to_session(ledger: Ledger, query: UsageQuery) -> UsageQuery:
    """The query with the whole id, and the provider, of the one session that it names. Raises Ambiguous.

    A name that the ledger does not know stays: such a session has used nothing.
    """
    ledger.checks.tables("sessions", "homes")
    wanted = parse_name(query.session or "")
    known = {
        (provider, session_id)
        for provider, home, scope, session_id, _ in list_sessions(ledger.db)
        if query.provider in (None, provider) and _fits(wanted, provider, home, scope, session_id)
    }
    exact = {one for one in known if wanted.session_id in (one[1], spoken_id(one[1]))}
    found = sorted(exact or known)
    if len(found) > 1:
        lines = "\n".join(f"  {provider}:{session_id}" for provider, session_id in found)
        raise Ambiguous(f"{query.session!r} could be any of {len(found)} sessions:\n{lines}")
    return query._replace(provider=found[0][0], session=found[0][1]) if found else query


def _list_sources(ledger: Ledger, provider: Provider, wanted: Name) -> Iterator[UsageSource]:
    if wanted.provider in (None, provider.name):
        env = environment(read_settings(), Cache(places.cache_dir()))
        homes = list_usage_homes(provider, env, ledger, ToldSessions(places.state_dir()))
        listed = (source for home in homes for source in provider.list_usage_sources(home))
        yield from Ties(ledger, provider.name, listed).sources


def _list_known(
    ledger: Ledger, sources: dict[str, list[UsageSource]]
) -> Iterator[tuple[str, str, str, str, str | None]]:
    ledger.checks.tables("sessions", "homes")
    yield from list_sessions(ledger.db)
    for listed in sources.values():
        for source in listed:
            if source.session_id:
                yield source.provider, source.home, source.scope, source.session_id, source.work_dir


def _fits(wanted: Name, provider: str, home: str, scope: str, session_id: str) -> bool:
    return (
        wanted.provider in (None, provider)
        and (wanted.home is None or os.path.realpath(wanted.home) == home)
        and wanted.scope in (None, scope)
        and (session_id.startswith(wanted.session_id) or spoken_id(session_id).startswith(wanted.session_id))
    )


def _choose(sources: list[UsageSource], home: str, scope: str, session_id: str) -> list[UsageSource]:
    """Own logs first: of equal lines the first is the one that counts."""

    def place(source: UsageSource) -> int | None:
        if source.home != home:
            return None
        if source.session_id == session_id and source.scope == (scope or source.scope):
            return 0
        if not source.session_id:
            return 1
        return 2 if source.parent_id == session_id else None

    placed = [(place(source), source) for source in sources]
    return [source for wanted in range(3) for where, source in placed if where == wanted]
