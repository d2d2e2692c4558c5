"""`corral config`: where corral's own settings lie and what is in force."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.prices import say_dollars
from corral.cli.screen import tilde
from corral.errors import CorralError
from corral.machine import places
from corral.machine.config import Config
from corral.machine.text import one_line
from corral.model.prices import OwnPrice
from corral.providers.settings import read_settings
from corral.usage import list_unknown_prices

_EPILOG = """\
The file is optional TOML:
  [homes]                              # data roots beside the default ones
  kimi-cli = ["/mnt/data/.kimi"]
  [programs]                           # where PATH would not find the right program
  kimi-code = "/opt/kimi/bin/kimi"
  [prices."my-model"]                  # US dollars per million tokens
  input = 0.6
  output = 2.5
docs/commands.md has the rest of it: currency, plans, budgets, models priced as others, the detach key.

examples:
  corral config
  $EDITOR "$(corral config path)"

exit codes: 0 ok · 1 the file can't be used · 2 usage"""

_NOT_LISTED = "no listed model has this name, so it has no price"


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "config",
        summary="corral's own configuration",
        description="Show the configuration in force, or print the path of its file.",
        epilog=_EPILOG,
    )
    parser.add_argument("what", nargs="?", choices=("show", "path"), default="show")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    config = read_settings()
    if args.what == "path":
        print_lines([config.path])
        return 0
    unknown = list_unknown_prices(config)
    if args.json:
        print_json(report(config, unknown))
    if config.problem:
        raise faulty(config)
    if not args.json:
        print_lines(render(config, unknown))
    return 0


def faulty(config: Config) -> CorralError:
    """What is told of a file that can't be used."""
    return CorralError(f"{config.path}: {config.problem}", hint="the defaults apply until it is fixed")


def report(config: Config, unknown: Mapping[str, str]) -> dict[str, object]:
    """The JSON: prices as decimal strings, in US dollars per million tokens."""
    return {
        "schema": 1,
        "path": config.path,
        "exists": config.exists,
        "problem": config.problem,
        "places": {"state": places.state_dir(), "data": places.data_dir(), "cache": places.cache_dir()},
        "homes": config.homes,
        "programs": config.programs,
        "prices": {model: {"as": price.priced_as, **_figures(price)} for model, price in config.prices.items()},
        "currency": config.currency,
        "plans": config.plans,
        "detach_key": config.detach_key,
        "budgets": config.budgets,
        "warnings": [f"{name!r} is priced as {other!r}: {_NOT_LISTED}" for name, other in unknown.items()],
    }


def render(config: Config, unknown: Mapping[str, str]) -> list[str]:
    lines = [f"config   {tilde(config.path)}" + ("" if config.exists else "  (does not exist: defaults)")]
    lines += [
        f"state    {tilde(places.state_dir())}",
        f"data     {tilde(places.data_dir())}",
        f"cache    {tilde(places.cache_dir())}",
    ]
    lines += [f"home     {name}: {tilde(path)}" for name, paths in config.homes.items() for path in paths]
    lines += [f"program  {name}: {tilde(path)}" for name, path in config.programs.items()]
    for model, price in config.prices.items():
        doubt = f"  ({_NOT_LISTED})" if model.lower() in unknown else ""
        lines.append(f"price    {one_line(model)}: {_say_price(price)}{doubt}")
    code = "USD"
    if config.currency is not None:
        code = config.currency.code
        lines.append(f"currency 1 USD = {config.currency.rate} {code}")
    lines += [f"plan     {one_line(name)}: {price} {code} a month" for name, price in config.plans.items()]
    return lines + [f"budget   {amount} {code} a {period}" for period, amount in config.budgets.items()]


def _say_price(price: OwnPrice) -> str:
    if price.priced_as is not None:
        return f"as {one_line(price.priced_as)}"
    figures = ", ".join(f"{kind} {rate}" for kind, rate in _figures(price).items() if rate is not None)
    return f"{figures} (US dollars per million tokens)"


def _figures(price: OwnPrice) -> dict[str, str | None]:
    """The five rates; None where none is set."""
    tier = price.tier
    rates = (tier.input, tier.cache_read, tier.cache_write, tier.cache_write_1h, tier.output) if tier else (None,) * 5
    kinds = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
    return {kind: None if rate is None else say_dollars(rate) for kind, rate in zip(kinds, rates, strict=True)}
