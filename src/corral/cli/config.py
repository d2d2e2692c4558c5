"""`corral config` and `corral prices`: what is set, what is in force, what models cost and who says so."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from corral.cli.command import JSON, Command
from corral.cli.output import print_json, print_lines
from corral.cli.screen import table, terminal_width, tilde
from corral.errors import CorralError
from corral.machine import places
from corral.machine.config import Config
from corral.machine.text import one_line
from corral.model.prices import ModelRates, OwnPrice, Rates
from corral.providers.settings import read_settings
from corral.usage import list_prices, list_unknown_prices, refresh_prices

if TYPE_CHECKING:
    from corral.usage import ReadTable

_CONFIG = """\
Show the configuration in force, or print the path of its file.

The file is optional TOML:
  [homes]                              # data roots beside the default ones
  kimi-cli = ["/mnt/data/.kimi"]
  [programs]                           # if PATH finds another program
  kimi-code = "/opt/kimi/bin/kimi"
  [prices."my-model"]                  # US dollars per million tokens
  input = 0.6
  output = 2.5
docs/commands.md has the rest: currency, plans, budgets, models priced as
others, the detach key.

examples:
  corral config
  $EDITOR "$(corral config path)"

exit codes: 0 ok · 1 the file can't be used · 2 usage"""
_PRICES = """\
Show the prices of models, or make a newer price table.

examples:
  corral prices                                  all models
  corral prices kimi-k2.5 claude-sonnet-4-5
  corral prices kimi-for-coding --at 2026-02-01  on that day (UTC)
  corral prices refresh                          from an installed genai-prices

Rates are US dollars per million tokens. docs/prices.md has the rules, and how
to set your own prices.

exit codes: 0 ok · 1 failed · 2 usage · 4 a model has no price"""
_NOT_LISTED = "no listed model has this name, so it has no price"
_KINDS = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
_HEADINGS = ["MODEL", "VENDOR", "CONTEXT", "INPUT", "CACHE READ", "CACHE WRITE", "WRITE 1H", "OUTPUT", "NOTE"]


# --- corral config


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=("show", "path"), default="show", help="default: show")
    parser.add_argument("--json", action="store_true", help=JSON)


def show_config(args: argparse.Namespace) -> int:
    config = read_settings()
    if args.what == "path":
        print_lines([config.path])
        return 0
    unknown = list_unknown_prices(config)
    if args.json:
        print_json(_report_config(config, unknown))
    if config.problem:
        raise faulty(config)
    if not args.json:
        print_lines(_render_config(config, unknown))
    return 0


def faulty(config: Config) -> CorralError:
    """The error for a file that can't be used."""
    return CorralError(f"{config.path}: {config.problem}", hint="the defaults apply until it is fixed")


def _report_config(config: Config, unknown: Mapping[str, str]) -> dict[str, object]:
    """The JSON: prices as decimal strings, in US dollars per million tokens."""
    return {
        "schema": 1,
        "path": config.path,
        "exists": config.exists,
        "problem": config.problem,
        "places": {"state": places.state_dir(), "data": places.data_dir(), "cache": places.cache_dir()},
        "homes": config.homes,
        "programs": config.programs,
        "prices": {model: {"as": price.priced_as, **_own_figures(price)} for model, price in config.prices.items()},
        "currency": config.currency,
        "plans": config.plans,
        "detach_key": config.detach_key,
        "budgets": config.budgets,
        "warnings": [f"{name!r} is priced as {other!r}: {_NOT_LISTED}" for name, other in unknown.items()],
    }


def _render_config(config: Config, unknown: Mapping[str, str]) -> list[str]:
    lines = [f"config   {tilde(config.path)}" + ("" if config.exists else "  (does not exist; defaults apply)")]
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
    figures = ", ".join(f"{kind} {rate}" for kind, rate in _own_figures(price).items() if rate is not None)
    return f"{figures} (US dollars per million tokens)"


def _own_figures(price: OwnPrice) -> dict[str, str | None]:
    """The five rates; None if one is not set."""
    rates: dict[str, int | None] = {kind: getattr(price.tier, kind, None) for kind in _KINDS}
    return {kind: None if rate is None else _say_dollars(rate) for kind, rate in rates.items()}


# --- corral prices


def _add_prices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="MODEL", help="models by the name that a CLI uses; or: refresh")
    parser.add_argument("--at", type=_parse_time, metavar="DATE", help="a day or an ISO time, in UTC (default: now)")
    parser.add_argument("--json", action="store_true", help=JSON)


def show_prices(args: argparse.Namespace) -> int:
    if args.models == ["refresh"]:
        return _refresh()
    at: float = datetime.now(UTC).timestamp() if args.at is None else args.at
    config = read_settings()
    if config.problem:
        raise CorralError(f"{config.path}: {config.problem}", hint="its prices can't be used until it is fixed")
    read, found = list_prices(config, args.models, at)
    if args.json:
        print_json(_report_prices(read, found, at))
    else:
        print_lines(_render_prices(read, config, found, at, terminal_width()))
    missing = [_shown(name) for name, rates in found if rates is None]
    if missing:
        hint = f'set your own: [prices."{missing[0]}"] in {tilde(config.path)}'
        raise CorralError(f"no price for {', '.join(missing)}", hint=hint, exit_code=4)
    return 0


def _report_prices(read: ReadTable, found: list[tuple[str, ModelRates | None]], at: float) -> dict[str, object]:
    """The JSON: rates as decimal strings, in US dollars per million tokens; null for a model without a price."""
    return {
        "schema": 1,
        "at": at,
        "table": {
            "source": read.table.source,
            "dated": read.table.dated,
            "path": read.path,
            "problem": read.problem,
        },
        "models": [{"model": name, "rates": None if rates is None else _describe(rates)} for name, rates in found],
    }


def _render_prices(
    read: ReadTable, config: Config, found: list[tuple[str, ModelRates | None]], at: float, width: int
) -> list[str]:
    rows = [_HEADINGS]
    for name, rates in found:
        rows += _rows(_shown(name), rates, read.table.source)
    lines = table(rows, gives_way=(8, 1, 0), width=width)
    lines.append(f"US dollars per million tokens, {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC")
    lines.append(f"source: {read.table.source} ({read.table.dated})")
    if read.problem:
        lines.append(f"passed over: {_shown(read.problem)}")
    if config.currency is not None and config.currency.code != "USD":
        lines.append(f"currency: 1 USD = {config.currency.rate} {config.currency.code}")
    code = config.currency.code if config.currency else "USD"
    return lines + [f"plan: {_shown(name)} {price} {code} a month" for name, price in config.plans.items()]


def _parse_time(text: str) -> float:
    """Epoch seconds of a day or an ISO time; UTC if it names no zone."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a date: 2026-02-01, or 2026-02-01T12:00") from None


def _refresh() -> int:
    made, path = refresh_prices()
    count = sum(len(vendor.models) for vendor in made.vendors)
    print_lines([f"{count} models from {made.source}, dated {made.dated}: {path}"])
    return 0


def _shown(text: str) -> str:
    return one_line(text) or "–"


def _rows(name: str, rates: ModelRates | None, usual_source: str) -> list[list[str]]:
    if rates is None:
        return [[name, "–", "", "–", "–", "–", "–", "–", "unpriced"]]
    rows: list[list[str]] = []
    for tier in rates.tiers:
        first = not rows
        size = "" if len(rates.tiers) == 1 else ("any" if first else f"> {tier.above // 1000}k")
        note = _note(rates, usual_source) if first else ""
        rows.append([name if first else "", rates.vendor if first else "", size, *_figures(tier).values(), note])
    return rows


def _note(rates: ModelRates, usual_source: str) -> str:
    said: list[str] = []
    if rates.assumed:
        said.append(f"assumed: {rates.listed_as}")
    elif rates.listed_as not in rates.model.lower():
        said.append(f"as {rates.listed_as}")
    if rates.source != usual_source:
        said.append(rates.origin)
    return "; ".join(said)


def _describe(rates: ModelRates) -> dict[str, object]:
    return {
        "listed_as": rates.listed_as,
        "vendor": rates.vendor,
        "tiers": [{"above": tier.above, **_figures(tier)} for tier in rates.tiers],
        "since": rates.since,
        "until": rates.until,
        "source": rates.source,
        "dated": rates.dated,
        "assumed": rates.assumed,
    }


def _figures(tier: Rates) -> dict[str, str]:
    return {kind: _say_dollars(getattr(tier, kind)) for kind in _KINDS}


def _say_dollars(picos_per_token: int) -> str:
    """Exact, per million tokens."""
    whole, rest = divmod(picos_per_token, 10**6)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")


COMMANDS = {
    "config": Command(_CONFIG, _add_config, show_config),
    "prices": Command(_PRICES, _add_prices, show_prices),
}
