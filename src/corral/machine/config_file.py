"""What may be in the configuration file, and what it means. Only read where there is a file."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from corral.machine.config import Config
from corral.model.money import Currency
from corral.model.prices import ListedTier, OwnPrice

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
"""US dollars per million tokens."""


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
    """Raises ValueError for what is not TOML, not a known setting, or makes no sense."""
    found = msgspec.toml.decode(data, type=_File)
    return Config(
        path=path,
        exists=True,
        homes={name: tuple(_path(f"homes.{name}", one) for one in paths) for name, paths in found.homes.items()},
        programs={name: _path(f"programs.{name}", program) for name, program in found.programs.items()},
        prices={name: _to_own_price(name, setting) for name, setting in found.prices.items()},
        currency=_to_currency(found.currency),
        detach_key=found.terminals.detach_key,
        plans={name: _to_decimal(price) for name, price in found.plans.items()},
        budgets={period: _to_decimal(amount) for period, amount in found.budget.items()},
    )


def _path(setting: str, text: str) -> str:
    """An absolute path, so that it means the same wherever corral is called."""
    path = os.path.expanduser(text)
    if not os.path.isabs(path):
        raise ValueError(f"{setting}: {text!r} must be an absolute path, or begin with ~/")
    return path


class PriceSetting(Struct, forbid_unknown_fields=True, rename={"priced_as": "as"}):
    """One table `[prices."model"]`: rates, or the model as which it is priced."""

    input: Dollars | None = None
    output: Dollars | None = None
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None
    priced_as: Annotated[str, Meta(min_length=1)] | None = None


class CurrencySetting(Struct, forbid_unknown_fields=True):
    """The table `[currency]`."""

    code: Annotated[str, Meta(pattern="^[A-Z]{3}$")]
    rate: Annotated[float, Meta(gt=0, le=1e9)]


Plan = Annotated[float, Meta(ge=0, le=1e9)]
BudgetSetting = Annotated[float, Meta(gt=0, le=1e9)]


def _to_currency(setting: CurrencySetting | None) -> Currency | None:
    """None where none is set. Raises ValueError for a rate that makes no sense."""
    if setting is None:
        return None
    if setting.code == "USD" and setting.rate != 1:
        raise ValueError("currency: prices are in USD, so its rate is 1")
    return Currency(setting.code, _to_decimal(setting.rate))


def _to_decimal(value: float) -> Decimal:
    """The number as the person wrote it."""
    return Decimal(int(value) if value == int(value) else str(value))


def _to_own_price(name: str, setting: PriceSetting) -> OwnPrice:
    rates = (setting.input, setting.cache_read, setting.cache_write, setting.cache_write_1h, setting.output)
    where = f'prices."{name}"'
    if setting.priced_as is not None:
        if any(rate is not None for rate in rates):
            raise ValueError(f"{where}: either rates or `as`")
        return OwnPrice(priced_as=setting.priced_as)
    if setting.input is None or setting.output is None:
        raise ValueError(f"{where}: needs `input` and `output` (US dollars per million tokens), or `as`")
    return OwnPrice(
        tier=ListedTier(
            0,
            _picos(setting.input, where),
            _optional_picos(setting.cache_read, where),
            _optional_picos(setting.cache_write, where),
            _optional_picos(setting.cache_write_1h, where),
            _picos(setting.output, where),
        )
    )


def _optional_picos(rate: float | None, where: str) -> int | None:
    return None if rate is None else _picos(rate, where)


def _picos(rate: float, where: str) -> int:
    picos = _to_decimal(rate) * 10**6
    if picos != int(picos):
        raise ValueError(f"{where}: {rate} has more than six decimals")
    return int(picos)
