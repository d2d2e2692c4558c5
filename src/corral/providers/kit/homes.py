"""A provider's data roots: the one its variable names, the default, those of corral's config; each once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from corral.model.key import Home

if TYPE_CHECKING:
    from corral.machine.processes import Process
    from corral.providers.contract import Environment


class HomePlace(Struct, frozen=True):
    """Where a CLI keeps its data, declared: a variable, and without it a directory in the person's home."""

    provider: str
    variable: str
    directory: str
    """Its name in the person's home: ".kimi"."""

    def list(self, env: Environment) -> tuple[Home, ...]:
        """The home in force comes first, whether it exists or not; the default one is left out if it is neither.

        Paths stay as given (absolute), and two that lead to the same directory are one home.
        """
        default = os.path.join(env.home_dir, self.directory)
        value = env.variables.get(self.variable)
        candidates = [(os.path.abspath(value), self.variable)] if value else []
        if not candidates or os.path.isdir(default):
            candidates.append((default, "default"))
        candidates += [(os.path.abspath(path), "config") for path in env.extra_homes.get(self.provider, ())]
        default_real = os.path.realpath(default)
        homes: dict[str, Home] = {}
        for path, origin in candidates:
            real = os.path.realpath(path)
            if real not in homes:
                homes[real] = Home(provider=self.provider, path=path, is_default=real == default_real, origin=origin)
        return tuple(homes.values())

    def find_of(self, process: Process) -> str | None:
        """The home that a running process has, by its environment; None when that is not known."""
        if chosen := process.environ.get(self.variable):
            return chosen if chosen.startswith("/") else None
        home = process.environ.get("HOME")
        return f"{home}/{self.directory}" if home else None

    def environment(self, home: Home) -> dict[str, str]:
        """What leads the CLI to this home."""
        return {} if home.is_default else {self.variable: home.path}
