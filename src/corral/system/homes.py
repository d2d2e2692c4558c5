"""A provider's data roots: the one its variable names, the default, those of corral's config; each once."""

from __future__ import annotations

import os
from collections.abc import Sequence

from corral.model.key import Home


def list_homes(
    provider: str, *, default: str, variable: str, value: str | None, extra: Sequence[str] = ()
) -> tuple[Home, ...]:
    """The home in force comes first, whether it exists or not; the default one is left out if it is neither.

    Paths stay as given (absolute), and two that lead to the same directory are one home.
    """
    candidates = [(os.path.abspath(value), variable)] if value else []
    if not candidates or os.path.isdir(default):
        candidates.append((default, "default"))
    candidates += [(os.path.abspath(path), "config") for path in extra]
    default_real = os.path.realpath(default)
    homes: dict[str, Home] = {}
    for path, origin in candidates:
        real = os.path.realpath(path)
        if real not in homes:
            homes[real] = Home(provider=provider, path=path, is_default=real == default_real, origin=origin)
    return tuple(homes.values())
