"""Which configurations `corral hooks` is about: every home in force of every CLI that takes hooks."""

from __future__ import annotations

import os
from collections.abc import Sequence

from corral.engine.catalogue import all_providers
from corral.engine.settings import read_settings
from corral.hooks.install import Setting
from corral.hooks.status import read_status
from corral.hooks.targets import list_versions
from corral.providers import Environment, Provider
from corral.system import places


def hook_providers() -> tuple[str, ...]:
    """The names of the providers that take hooks of ours."""
    return tuple(provider.name for provider in all_providers() if provider.hook_target is not None)


def find_silence(provider: Provider, home: str) -> str | None:
    """Why this CLI, started now in this home, will not say which session it has; None where its word is expected."""
    capabilities = provider.capabilities
    if not capabilities.needs_hooks:
        return None
    statuses = [read_status(setting) for setting in list_settings(provider.name, [home])]
    if all(status.installed and not status.problems for status in statuses):
        return None
    problem = next((problem for status in statuses for problem in status.problems), "they are not installed")
    return f"{capabilities.title} tells which session it has only through hooks, and {problem}"


def list_settings(provider_name: str | None, chosen: Sequence[str] = (), *, existing: bool = False) -> list[Setting]:
    """Each home of one provider, or of all: those `chosen`, else the default, the variable's and the config's.

    With `existing`, only those that are there; of a provider that was named, the first is kept in any case, so
    that the person learns what is missing.
    """
    config = read_settings()
    env = Environment(
        home_dir=os.path.expanduser("~"),
        variables=os.environ,
        extra_homes=config.homes,
        programs=config.programs,
    )
    settings: list[Setting] = []
    for provider in all_providers():
        if provider.hook_target is None or provider_name not in (None, provider.name):
            continue
        homes = [os.path.abspath(os.path.expanduser(home)) for home in chosen]
        homes = homes or [home.path for home in provider.homes(env)]
        if existing and not chosen:
            there = [home for home in homes if os.path.isdir(home)]
            homes = there or (homes[:1] if provider_name else [])
        versions = list_versions(provider.hook_target, os.environ.get("PATH", ""))
        settings += [
            Setting(
                target=provider.hook_target,
                home=home,
                state_dir=places.state_dir(),
                data_dir=places.data_dir(),
                versions=versions,
                is_chosen=bool(chosen),
            )
            for home in homes
        ]
    return settings
