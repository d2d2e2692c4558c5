"""Everything a survey rests on, read from disk and process table in one pass; nothing is judged here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct

from corral.engine.catalogue import all_providers
from corral.hooks.installed import Installation, read_installation
from corral.hooks.journal import read_journals
from corral.model.claim import BadClaim, Claim
from corral.model.journal import Journal
from corral.model.key import Home
from corral.model.process import Recognised
from corral.model.record import SessionRecord, Skipped
from corral.model.session import Degraded
from corral.providers import Environment, Provider
from corral.store.cache import Cache
from corral.system.config import Config
from corral.system.processes import ProcessTable


class HomeFacts(Struct, frozen=True, kw_only=True):
    """What lies in one home."""

    provider: Provider
    home: Home
    records: Sequence[SessionRecord]
    claims: Sequence[Claim]
    bad_claims: Sequence[BadClaim]
    installation: Installation | None


class Facts(Struct, frozen=True, kw_only=True):
    """What lies on this machine, before anyone judges it."""

    homes: Sequence[HomeFacts]
    journals: Sequence[Journal]
    recognised: Sequence[Recognised]
    skipped: Sequence[Skipped]
    degraded: Sequence[Degraded]


def environment(config: Config, cache: Cache, *, probing: bool = False) -> Environment:
    """The person's environment as providers may see it; with `probing`, programs may be asked for their version."""

    def ask_version(path: str) -> str | None:
        known = cache.find_version(path)
        if known is None and probing:
            from corral.system.programs import probe_version

            known = probe_version(path)
            if known is not None:
                cache.keep_version(path, known)
        return known

    return Environment(
        home_dir=os.path.expanduser("~"),
        variables=os.environ,
        extra_homes=config.homes,
        programs=config.programs,
        ask_version=ask_version,
    )


def gather(
    env: Environment,
    state_dir: str,
    cache: Cache,
    table: ProcessTable,
    providers: Iterable[Provider] | None = None,
) -> Facts:
    """Read all homes of the given providers (all, if none are given). A failing step is told, never fatal."""
    homes: list[HomeFacts] = []
    journals: list[Journal] = []
    recognised: list[Recognised] = []
    skipped: list[Skipped] = []
    degraded: list[Degraded] = []
    for provider in all_providers() if providers is None else providers:
        mine = [found for process in table if (found := provider.recognise(process, table))]
        recognised += mine
        reports: list[Journal] = []
        for entry in read_journals(state_dir, provider.name):
            if isinstance(entry, Skipped):
                skipped.append(entry)
            else:
                reports.append(entry)
        journals += reports
        for home in _all_homes(provider, env, mine, reports):
            if not os.path.isdir(home.path):
                continue
            try:
                homes.append(_read_home(provider, home, state_dir, cache, skipped))
            except OSError as error:
                degraded.append(Degraded(provider=provider.name, step=f"read {home.path}", reason=str(error)))
    return Facts(homes=homes, journals=journals, recognised=recognised, skipped=skipped, degraded=degraded)


def _read_home(provider: Provider, home: Home, state_dir: str, cache: Cache, skipped: list[Skipped]) -> HomeFacts:
    known = cache.known(provider.name, home.path)
    records: list[SessionRecord] = []
    for entry in provider.list_sessions(home, known):
        if isinstance(entry, SessionRecord):
            records.append(entry)
        else:
            skipped.append(entry)
    cache.keep(known)
    claims: list[Claim] = []
    bad: list[BadClaim] = []
    for claim in provider.list_claims(home):
        if isinstance(claim, Claim):
            claims.append(claim)
        else:
            bad.append(claim)
    return HomeFacts(
        provider=provider,
        home=home,
        records=records,
        claims=claims,
        bad_claims=bad,
        installation=read_installation(state_dir, provider.name, home.path),
    )


def _all_homes(
    provider: Provider, env: Environment, running: Sequence[Recognised], journals: Sequence[Journal]
) -> list[Home]:
    """Those the environment names, and those that a running process or our journal says are in use."""
    homes = list(provider.homes(env))
    seen = {os.path.realpath(home.path) for home in homes}
    hints = [(process.home, f"pid {process.identity.pid}") for process in running]
    hints += [(journal.home, "journal") for journal in journals]
    for path, origin in hints:
        if path is not None and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            homes.append(Home(provider=provider.name, path=path, is_default=False, origin=origin))
    return homes
