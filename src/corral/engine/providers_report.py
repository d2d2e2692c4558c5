"""What can be started here: each provider with its installed program and how our hooks stand in its home."""

from __future__ import annotations

from msgspec import Struct

from corral.engine.catalogue import all_providers
from corral.engine.gather import environment
from corral.engine.hook_settings import list_settings
from corral.hooks.status import Status, read_status
from corral.model.restore import Program
from corral.providers import Provider
from corral.store.cache import Cache
from corral.system import places
from corral.system.config import read_config


class ProviderFacts(Struct, frozen=True, kw_only=True):
    """`hooks` is installed, missing or changed; None where it takes none of ours."""

    provider: Provider
    program: Program | None
    hooks: str | None


def list_provider_facts() -> list[ProviderFacts]:
    """Programs may be asked for their version; nothing else is run."""
    cache = Cache(places.cache_dir())
    try:
        env = environment(read_config(), cache, probing=True)
        programs = {provider.name: provider.find_program(env) for provider in all_providers()}
    finally:
        cache.close()
    return [
        ProviderFacts(provider=provider, program=programs[provider.name], hooks=_read_hooks(provider))
        for provider in all_providers()
    ]


def _read_hooks(provider: Provider) -> str | None:
    if provider.hook_target is None:
        return None
    words = {_word(read_status(setting)) for setting in list_settings(provider.name, existing=True)}
    return next(word for word in ("changed", "missing", "installed") if word in words)


def _word(status: Status) -> str:
    if status.installed:
        return "changed" if status.problems else "installed"
    return "changed" if status.problems and status.installed_at else "missing"
