"""Which configurations `corral hooks` is about: every home in force of every CLI that takes hooks."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import structs

from corral.engine.catalogue import all_providers
from corral.engine.settings import read_settings
from corral.hooks.install import Setting
from corral.hooks.status import Status, install_command, read_status
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


def read_hook_status(provider: str, home: str, *, is_found: bool) -> tuple[Setting, Status] | None:
    """Our hooks in one home; None where the CLI takes none. `is_found`: corral finds this home by itself."""
    for setting in list_settings(provider, [home]):
        setting = structs.replace(setting, is_chosen=not is_found)
        return setting, read_status(setting)
    return None


def advise_hooks(setting: Setting, status: Status) -> str | None:
    """What would make the CLI of this home report: a command, or what only the person can mend; None: it does."""
    if status.problems:
        return status.remedy or f"mend {status.config_path}: {status.problems[0]}"
    return None if status.installed else install_command(setting)


def lack_hooks() -> bool:
    """Some CLI that tells its session through hooks alone has a home here where `corral hooks install` would help."""
    needing = [provider.name for provider in all_providers() if provider.capabilities.needs_hooks]
    for setting in (one for name in needing for one in list_settings(name, existing=True)):
        status = read_status(setting)
        if status.home_exists and (status.remedy is not None or not (status.installed or status.problems)):
            return True
    return False


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
