"""The configuration in force, checked against the providers that exist."""

from __future__ import annotations

from corral.machine.config import Config, read_config
from corral.providers.registry import all_providers


def read_settings() -> Config:
    """As the file says. A provider that nobody knows is a fault like any other: told, and the defaults hold."""
    config = read_config()
    if not config.homes and not config.programs:
        return config
    known = [provider.name for provider in all_providers()]
    strange = [
        f"{table}.{name}"
        for table, settings in (("homes", config.homes), ("programs", config.programs))
        for name in settings
        if name not in known
    ]
    if not strange:
        return config
    problem = f"no provider has this name: {', '.join(strange)} (there are: {', '.join(known)})"
    return Config(path=config.path, exists=True, problem=problem)
