"""Asking a CLI to report which sessions it serves: hook program, installation, journals.

The door of the room: others call these functions, and each imports what it needs when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.hooks.status import Status as Status
    from corral.model.hook_install import Done
    from corral.providers.contract import Provider


def hook_providers() -> tuple[str, ...]:
    """The names of the providers that take hooks of ours."""
    from corral.hooks.settings import hook_providers

    return hook_providers()


def read_statuses(provider: str | None, homes: Sequence[str] = ()) -> list[Status]:
    """Our hooks in each home of one provider, or of all: in those named, else in every home in force."""
    from corral.hooks.status import read_statuses

    return read_statuses(provider, homes)


def install_hooks(provider: str | None, homes: Sequence[str] = ()) -> list[Done]:
    """Ask each CLI to report, in the homes that exist. Empty where there is none."""
    from corral.hooks.install import in_each_home, install

    return in_each_home(install, provider, homes)


def uninstall_hooks(provider: str | None, homes: Sequence[str] = ()) -> list[Done]:
    """Take our entries out again, in the homes that exist. Empty where there is none."""
    from corral.hooks.install import in_each_home, uninstall

    return in_each_home(uninstall, provider, homes)


def find_silence(provider: Provider, home: str) -> str | None:
    """Why this CLI, started now in this home, will not say which session it has; None where its word is expected."""
    from corral.hooks.status import find_silence

    return find_silence(provider, home)


def lack_hooks() -> bool:
    """Whether some CLI has a home here where `corral hooks install` would help."""
    from corral.hooks.status import lack_hooks

    return lack_hooks()
