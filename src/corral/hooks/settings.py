"""Which configurations `corral hooks` is about: every home in force of every CLI that takes hooks."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import structs

from corral.hooks.install import Setting
from corral.hooks.status import Status, install_command, read_status
from corral.hooks.targets import list_versions
from corral.machine import places
from corral.model.hook_install import Done, Outcome
from corral.model.hook_target import HookTarget
from corral.model.session import Degraded
from corral.providers.asking import Asker
from corral.providers.contract import Environment, Provider
from corral.providers.registry import all_providers
from corral.providers.settings import read_settings


def hook_providers() -> tuple[str, ...]:
    """The names of the providers that take hooks of ours, as far as they say."""
    asker = Asker()
    takes = {provider.name: find_target(provider, asker) is not None for provider in all_providers()}
    failed = {told.provider for told in asker.degraded}
    return tuple(name for name, is_target in takes.items() if is_target or name in failed)


def find_target(provider: Provider, asker: Asker) -> HookTarget | None:
    """Where it takes hooks of ours; None if it does not, or if it failed, which the asker tells."""
    return asker.ask(provider, "find its hooks", provider.hooks, lambda _: None)


def find_silence(provider: Provider, home: str) -> str | None:
    """Why this CLI, started now in this home, will not say which session it has; None where its word is expected."""
    capabilities = provider.capabilities
    if not capabilities.needs_hooks:
        return None
    asker = Asker()
    statuses = [read_status(setting) for setting in list_settings(provider.name, [home], asker=asker)]
    if failed := asker.degraded:
        return f"{capabilities.title} reports its session only through hooks, and {say_failure(failed[0])}"
    if all(status.installed and not status.problems for status in statuses):
        return None
    problem = next((problem for status in statuses for problem in status.problems), "they are not installed")
    return f"{capabilities.title} reports its session only through hooks, and {problem}"


def read_hook_status(provider: str, home: str, *, is_found: bool) -> tuple[Setting, Status] | None:
    """Our hooks in one home; None where the CLI takes none. `is_found`: corral finds this home by itself."""
    for setting in list_settings(provider, [home]):
        setting = structs.replace(setting, is_chosen=not is_found)
        return setting, read_status(setting)
    return None


def advise_hooks(setting: Setting, status: Status) -> str | None:
    """What would make the CLI of this home report: a command, or what only the person can mend; None: it does."""
    if status.problems:
        return status.remedy or f"fix {status.config_path}: {status.problems[0]}"
    return None if status.installed else install_command(setting)


def lack_hooks() -> bool:
    """Some CLI that tells its session through hooks alone has a home here where `corral hooks install` would help."""
    needing = [provider.name for provider in all_providers() if provider.capabilities.needs_hooks]
    for setting in (one for name in needing for one in list_settings(name, existing=True)):
        status = read_status(setting)
        if status.home_exists and (status.remedy is not None or not (status.installed or status.problems)):
            return True
    return False


def say_failure(told: Degraded) -> str:
    return f"corral could not {told.step}: {told.reason}"


def report_failures(asker: Asker) -> list[Status]:
    """The providers that could not say where their hooks are, each as a status with that problem."""
    return [
        Status(
            provider=told.provider,
            home="",
            config_path="",
            home_exists=False,
            installed=False,
            installed_at=None,
            events=(),
            problems=(say_failure(told),),
        )
        for told in asker.degraded
    ]


def refuse_failures(asker: Asker) -> list[Done]:
    """The same of an installation."""
    return [
        Done(provider=told.provider, home="", config_path="", outcome=Outcome.REFUSED, message=say_failure(told))
        for told in asker.degraded
    ]


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
