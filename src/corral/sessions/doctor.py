"""A check-up: what is installed and can be started, what was found, what could not be read, what would help."""

from __future__ import annotations

import os
from collections import Counter

from msgspec import Struct

from corral.hooks.settings import list_settings
from corral.hooks.status import Status, advise_hooks, read_hook_status, read_status
from corral.machine import places
from corral.machine.config import read_config
from corral.model.record import Skipped
from corral.model.restore import Program
from corral.model.selection import Selection
from corral.model.session import AgentProcess, Degraded
from corral.providers.asking import Asker
from corral.providers.contract import Capabilities, Provider, Support
from corral.providers.registry import all_providers
from corral.providers.settings import read_settings
from corral.sessions.cache import Cache
from corral.sessions.gather import environment, find_program
from corral.sessions.survey import take_survey

SCHEMA = 1


class HookHealth(Struct, frozen=True, kw_only=True):
    """Our hooks in one home."""

    installed: bool
    problems: tuple[str, ...]


class HomeHealth(Struct, frozen=True, kw_only=True):
    path: str
    origin: str
    exists: bool
    sessions: int
    hooks: HookHealth


class ProviderHealth(Struct, frozen=True, kw_only=True):
    name: str
    capabilities: Capabilities
    support: Support
    program: Program | None
    homes: tuple[HomeHealth, ...]


class PlaceHealth(Struct, frozen=True, kw_only=True):
    """One of corral's own directories."""

    name: str
    path: str
    writable: bool


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Everything that `corral doctor` prints."""

    schema: int
    providers: tuple[ProviderHealth, ...]
    unattributed: tuple[AgentProcess, ...]
    degraded: tuple[Degraded, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    places: tuple[PlaceHealth, ...]
    advice: tuple[str, ...]
    """What would help, most useful first."""


def examine() -> Diagnosis:
    """Examine everything. A program whose files do not name its version is run to ask for it."""
    env = environment(read_settings(), Cache(places.cache_dir()), probing=True)
    asker = Asker()
    survey = take_survey(Selection(), probing=True)
    per_home = Counter((session.provider, session.key.home) for session in survey.sessions)
    providers: list[ProviderHealth] = []
    advice: list[str] = []
    for provider in all_providers():
        named = asker.each(provider, "find its homes", lambda provider=provider: provider.homes(env))
        found = (home for home in survey.homes if home.provider == provider.name)
        program = find_program(provider, env, asker)
        healths: list[HomeHealth] = []
        for home in {home.path: home for home in (*named, *found)}.values():
            exists = os.path.isdir(home.path)
            hooks = read_hook_status(provider.name, home.path, is_found=home.origin == "default") if exists else None
            status = hooks[1] if hooks is not None else None
            if hooks is not None and (hooks[1].problems or (provider.capabilities.needs_hooks and program is not None)):
                advice += filter(None, [advise_hooks(*hooks)])
            healths.append(
                HomeHealth(
                    path=home.path,
                    origin=home.origin,
                    exists=exists,
                    sessions=per_home[provider.name, home.path],
                    hooks=HookHealth(
                        installed=status is not None and status.installed, problems=status.problems if status else ()
                    ),
                )
            )
        providers.append(
            ProviderHealth(
                name=provider.name,
                capabilities=provider.capabilities,
                support=provider.support,
                program=program,
                homes=tuple(healths),
            )
        )
    advice += [process.advice for process in survey.unattributed if process.advice]
    return Diagnosis(
        schema=SCHEMA,
        providers=tuple(providers),
        unattributed=survey.unattributed,
        degraded=tuple(dict.fromkeys([*survey.degraded, *asker.degraded])),
        skipped=survey.skipped,
        warnings=tuple(f"{session.key}: {text}" for session in survey.sessions for text in session.warnings),
        places=_own_places(),
        advice=tuple(dict.fromkeys(advice)),
    )


def _own_places() -> tuple[PlaceHealth, ...]:
    named = (("state", places.state_dir()), ("data", places.data_dir()), ("cache", places.cache_dir()))
    return tuple(PlaceHealth(name=name, path=path, writable=_can_write(path)) for name, path in named)


def _can_write(path: str) -> bool:
    """The directory, or the nearest that exists above it, may be written by us."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return os.access(path, os.W_OK | os.X_OK)


class ProviderFacts(Struct, frozen=True, kw_only=True):
    """`hooks` is installed, missing or changed; None where it takes none of ours."""

    provider: Provider
    program: Program | None
    hooks: str | None


def list_provider_facts() -> list[ProviderFacts]:
    """Programs may be asked for their version; nothing else is run."""
    cache = Cache(places.cache_dir())
    env, asker = environment(read_config(), cache, probing=True), Asker()
    try:
        return [
            ProviderFacts(provider=provider, program=find_program(provider, env, asker), hooks=_read_hooks(provider))
            for provider in all_providers()
        ]
    finally:
        cache.close()


def _read_hooks(provider: Provider) -> str | None:
    words = {_word(read_status(setting)) for setting in list_settings(provider.name, existing=True)}
    return next((word for word in ("changed", "missing", "installed") if word in words), None)


def _word(status: Status) -> str:
    if status.installed:
        return "changed" if status.problems else "installed"
    return "changed" if status.problems and status.installed_at else "missing"
