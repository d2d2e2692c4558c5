"""corral's own configuration: one optional TOML file, read strictly, never written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from corral.machine.places import config_dir
from corral.sidecar.files import Unreadable, read_regular

_LARGEST = 1 << 20

if TYPE_CHECKING:
    from decimal import Decimal

    from corral.model.money import Currency
    from corral.model.prices import OwnPrice


class Config(Struct, frozen=True, kw_only=True):
    """What the person set; everything has a default."""

    path: str
    exists: bool = False
    homes: Mapping[str, tuple[str, ...]] = {}
    """Further data roots by provider name."""
    programs: Mapping[str, str] = {}
    """The program to run, by provider name, where PATH would not find the right one."""
    prices: Mapping[str, OwnPrice] = {}
    """Own prices by model name."""
    currency: Currency | None = None
    """The currency in which money is shown; None: US dollars, like the prices."""
    plans: Mapping[str, Decimal] = {}
    """What a plan costs a month, in that currency; only shown."""
    budgets: Mapping[str, Decimal] = {}
    """What may be spent in a day, week or month, in that currency; compared, never enforced."""
    detach_key: str = "ctrl-\\"
    """What leaves an attached terminal: `ctrl-` and a letter or one of `\\ ] ^ _`."""
    problem: str | None = None
    """Why the file could not be used; then the defaults are in force."""


def config_path() -> str:
    """Where the file is, whether it exists or not."""
    return os.path.join(config_dir(), "config.toml")


def read_config() -> Config:
    """The configuration in force; of a broken file `problem` says why, and the defaults are used."""
    path = config_path()
    # A dotfile may be a link; what it leads to must be a file.
    content = read_regular(os.path.realpath(path), _LARGEST)
    if isinstance(content, Unreadable):
        if content.code == "io:ENOENT":
            return Config(path=path)
        return Config(path=path, exists=True, problem=f"can't be read: {content.reason}")
    from corral.machine.config_file import parse_config

    try:
        return parse_config(path, content.data)
    except (ValueError, RecursionError) as error:
        return Config(path=path, exists=True, problem=str(error))
