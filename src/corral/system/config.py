"""corral's own configuration: one optional TOML file, read strictly, never written."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from corral.system.places import config_dir


class Config(Struct, frozen=True, kw_only=True):
    """What the person set; everything has a default."""

    path: str
    exists: bool = False
    homes: Mapping[str, tuple[str, ...]] = {}
    """Further data roots by provider name."""
    programs: Mapping[str, str] = {}
    """The program to run, by provider name, where PATH would not find the right one."""
    problem: str | None = None
    """Why the file could not be used; the defaults hold then."""


class _File(Struct, forbid_unknown_fields=True):
    homes: dict[str, list[str]] = {}
    programs: dict[str, str] = {}


def config_path() -> str:
    """Where the file lies, whether it exists or not."""
    return os.path.join(config_dir(), "config.toml")


def read_config() -> Config:
    """The configuration in force; a broken file is told, and the defaults are used."""
    path = config_path()
    try:
        with open(path, "rb") as file:
            data = file.read(1 << 20)
    except FileNotFoundError:
        return Config(path=path)
    except OSError as error:
        return Config(path=path, exists=True, problem=f"can't be read: {error.strerror}")
    import msgspec

    try:
        found = msgspec.toml.decode(data, type=_File)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        return Config(path=path, exists=True, problem=str(error))
    return Config(
        path=path,
        exists=True,
        homes={name: tuple(map(os.path.expanduser, paths)) for name, paths in found.homes.items()},
        programs={name: os.path.expanduser(program) for name, program in found.programs.items()},
    )
