"""The providers that exist: found by listing the folder, imported when first asked for."""

from __future__ import annotations

import importlib
import os
from functools import cache
from typing import cast

import corral.providers
from corral.errors import CorralError
from corral.providers import Provider


@cache
def all_providers() -> tuple[Provider, ...]:
    """Every built-in provider, in the order of their names."""
    (folder,) = corral.providers.__path__
    names = sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name, "__init__.py")))
    return tuple(cast(Provider, importlib.import_module(f"corral.providers.{name}")) for name in names)


def find_provider(name: str) -> Provider:
    """The provider called so, or an error that names those that exist."""
    if (provider := _import_provider(name)) is not None:
        return provider
    known = ", ".join(provider.name for provider in all_providers())
    raise CorralError(f"no provider is called {name!r}", hint=f"there are: {known}", exit_code=2)


def has_provider(name: str) -> bool:
    """Whether this corral knows a provider called so; a newer one may know more."""
    return _import_provider(name) is not None


def _import_provider(name: str) -> Provider | None:
    (folder,) = corral.providers.__path__
    package = name.replace("-", "_")
    if not package.isidentifier() or not os.path.isfile(os.path.join(folder, package, "__init__.py")):
        return None
    provider = cast(Provider, importlib.import_module(f"corral.providers.{package}"))
    return provider if provider.name == name else None
