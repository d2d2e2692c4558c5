"""What may stand in the configuration file, and what it means. Only read where there is a file."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from corral.system.config import Config
from corral.system.own_prices import (
    BudgetSetting,
    CurrencySetting,
    Plan,
    PriceSetting,
    to_currency,
    to_decimal,
    to_own_prices,
)


class _Terminals(Struct, frozen=True, forbid_unknown_fields=True):
    detach_key: Annotated[str, Meta(pattern=r"^ctrl-[a-z\\\]^_]$")] = "ctrl-\\"


class _File(Struct, forbid_unknown_fields=True):
    homes: dict[str, list[str]] = {}
    programs: dict[str, str] = {}
    prices: dict[str, PriceSetting] = {}
    currency: CurrencySetting | None = None
    plans: dict[str, Plan] = {}
    budget: dict[Literal["day", "week", "month"], BudgetSetting] = {}
    terminals: _Terminals = _Terminals()


def parse_config(path: str, data: bytes) -> Config:
    """Raises ValueError for what is no TOML, no known setting, or makes no sense."""
    found = msgspec.toml.decode(data, type=_File)
    return Config(
        path=path,
        exists=True,
        homes={name: tuple(_path(f"homes.{name}", one) for one in paths) for name, paths in found.homes.items()},
        programs={name: _path(f"programs.{name}", program) for name, program in found.programs.items()},
        prices=to_own_prices(found.prices),
        currency=to_currency(found.currency),
        detach_key=found.terminals.detach_key,
        plans={name: to_decimal(price) for name, price in found.plans.items()},
        budgets={period: to_decimal(amount) for period, amount in found.budget.items()},
    )


def _path(setting: str, text: str) -> str:
    """The same wherever corral is called."""
    path = os.path.expanduser(text)
    if not os.path.isabs(path):
        raise ValueError(f"{setting}: {text!r} must be an absolute path, or begin with ~/")
    return path
