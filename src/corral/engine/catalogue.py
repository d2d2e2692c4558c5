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
    (folder,) = corral.providers.__path__
    package = name.replace("-", "_")
    if package.isidentifier() and os.path.isfile(os.path.join(folder, package, "__init__.py")):
        provider = cast(Provider, importlib.import_module(f"corral.providers.{package}"))
        if provider.name == name:
            return provider
    known = ", ".join(provider.name for provider in all_providers())
    raise CorralError(f"no provider is called {name!r}", hint=f"there are: {known}", exit_code=2)
