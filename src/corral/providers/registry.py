"""The providers that exist: found by listing the folder, imported when first asked for."""

from __future__ import annotations

import importlib
import os
from functools import cache

import corral.providers
from corral.errors import CorralError
from corral.providers.contract import Provider

_SHARED = "kit"
"""A package of the folder that is no provider."""


@cache
def all_providers() -> tuple[Provider, ...]:
    """Every provider there is, in the order of their names."""
    names = {name for folder in corral.providers.__path__ for name in os.listdir(folder)}
    return tuple(_import(name) for name in sorted(names) if _is_provider(name))


def find_provider(name: str) -> Provider:
    """The provider called so, or an error that names those that exist."""
    if (provider := _find(name)) is not None:
        return provider
    known = ", ".join(provider.name for provider in all_providers())
    raise CorralError(f"no provider named {name!r}", hint=f"there are: {known}", exit_code=2)


def has_provider(name: str) -> bool:
    """Whether this corral knows a provider called so; a newer one may know more."""
    return _find(name) is not None


def _find(name: str) -> Provider | None:
    package = name.replace("-", "_")
    if not package.isidentifier() or not _is_provider(package):
        return None
    provider = _import(package)
    return provider if provider.name == name else None


def _import(package: str) -> Provider:
    found = getattr(importlib.import_module(f"corral.providers.{package}"), "PROVIDER", None)
    if not isinstance(found, Provider):
        raise TypeError(f"corral.providers.{package} has no PROVIDER that is a Provider")
    return found


def _is_provider(package: str) -> bool:
    return package != _SHARED and any(
        os.path.isfile(os.path.join(folder, package, "__init__.py")) for folder in corral.providers.__path__
    )
