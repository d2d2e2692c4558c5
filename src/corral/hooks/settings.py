"""Which configurations `corral hooks` is about: every home in force of every CLI that takes hooks."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from corral.machine import places
from corral.model.hook_target import HookTarget
from corral.providers.asking import Asker
from corral.providers.contract import Environment, Provider
from corral.providers.registry import all_providers
from corral.providers.settings import read_settings


class Setting(Struct, frozen=True, kw_only=True):
    """One home, and where corral keeps its own files."""

    target: HookTarget
    home: str
    state_dir: str
    data_dir: str
    versions: Sequence[str] = ()
    """Versions of the CLI that are installed, as far as they are known."""
    is_chosen: bool = False
    """A person named this home, so advice must name it too; else corral finds it by itself."""

    @property
    def provider(self) -> str:
        return self.target.provider

    @property
    def config_path(self) -> str:
        return os.path.join(self.home, self.target.config_name)


def hook_providers() -> tuple[str, ...]:
    """The names of the providers that take hooks of ours, as far as they say."""
    asker = Asker()
    takes = {provider.name: find_target(provider, asker) is not None for provider in all_providers()}
    failed = {told.provider for told in asker.degraded}
    return tuple(name for name, is_target in takes.items() if is_target or name in failed)


def list_settings(
    provider_name: str | None, chosen: Sequence[str] = (), *, existing: bool = False, asker: Asker | None = None
) -> list[Setting]:
    """Each home of one provider, or of all: those `chosen`, else the default, the variable's and the config's.

    With `existing`, only those that are there; of a provider that was named, the first is kept in any case, so
    that the person learns what is missing. A provider that fails has none, and the `asker` knows why.
    """
    asker = asker or Asker()
    config = read_settings()
    env = Environment(
        home_dir=os.path.expanduser("~"),
        variables=os.environ,
        extra_homes=config.homes,
        programs=config.programs,
    )
    settings: list[Setting] = []
    for provider in all_providers():
        if provider_name not in (None, provider.name) or (target := find_target(provider, asker)) is None:
            continue
        homes = [os.path.abspath(os.path.expanduser(home)) for home in chosen]
        if not homes:
            named = asker.each(provider, "find its homes", lambda provider=provider: provider.homes(env))
            homes = [home.path for home in named]
        if existing and not chosen:
            there = [home for home in homes if os.path.isdir(home)]
            homes = there or (homes[:1] if provider_name else [])
        versions = list_versions(target, os.environ.get("PATH", ""))
        settings += [
            Setting(
                target=target,
                home=home,
                state_dir=places.state_dir(),
                data_dir=places.data_dir(),
                versions=versions,
                is_chosen=bool(chosen),
            )
            for home in homes
        ]
    return settings


def find_target(provider: Provider, asker: Asker) -> HookTarget | None:
    """Where it takes our hooks; None if it takes none, or if it failed: see `asker.degraded`."""
    return asker.ask(provider, "find its hooks", provider.hooks, lambda _: None)


def list_versions(target: HookTarget, path_variable: str) -> list[str]:
    """The versions of the CLI on PATH, read from their files; empty where the version makes no difference."""
    from corral.providers.kit.programs import find_on_path, identify

    if not target.later_events:
        return []
    paths = (path for command in target.commands for path in find_on_path(command, path_variable))
    return [found.version for found in map(identify, paths) if found and found.product == target.product]


def events_for(target: HookTarget, versions: Sequence[str]) -> tuple[str, ...]:
    """The events to ask for, given the versions of the CLI that are installed, as far as they are known."""
    later = (
        event.event
        for event in target.later_events
        if versions and all(_is_proven(version, event.since) for version in versions)
    )
    return (*target.events, *later)


def _is_proven(version: str, since: tuple[int, ...]) -> bool:
    numbers = version.split("-")[0].split(".")
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= since
