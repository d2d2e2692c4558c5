"""`corral prices`: what models cost, who says so, and a newer table on request."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import table, terminal_width, tilde
from corral.errors import CorralError
from corral.machine.config import Config
from corral.machine.text import one_line
from corral.model.prices import ModelRates, Rates
from corral.providers.settings import read_settings
from corral.usage import list_prices, refresh_prices

if TYPE_CHECKING:
    from corral.usage import ReadTable

_EPILOG = """\
examples:
  corral prices                                  all models
  corral prices kimi-k2.5 claude-sonnet-4-5
  corral prices kimi-for-coding --at 2026-02-01  what held on that day (UTC)
  corral prices refresh                          a newer table, from an installed genai-prices

Rates are US dollars per million tokens. docs/prices.md has the rules, and how to set prices of your own.

exit codes: 0 ok · 1 failed · 2 usage · 4 a model has no price"""

_HEADINGS = ["MODEL", "VENDOR", "CONTEXT", "INPUT", "CACHE READ", "CACHE WRITE", "WRITE 1H", "OUTPUT", "NOTE"]


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "prices",
        summary="what models cost, with source and date",
        description="Show the prices in force for models, or make a newer price table (`corral prices refresh`).",
        epilog=_EPILOG,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="a model as a CLI calls it; none: all; or: refresh")
    parser.add_argument("--at", type=parse_time, metavar="DATE", help="a day or an ISO time, UTC (default: now)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    if args.models == ["refresh"]:
        return _refresh()
    at: float = datetime.now(UTC).timestamp() if args.at is None else args.at
    config = read_settings()
    if config.problem:
        raise CorralError(f"{config.path}: {config.problem}", hint="its prices can't be used until it is fixed")
    read, found = list_prices(config, args.models, at)
    if args.json:
        print_json(report(read, found, at))
    else:
        print_lines(render(read, config, found, at, terminal_width()))
    missing = [_shown(name) for name, rates in found if rates is None]
    if missing:
        hint = f'set your own: [prices."{missing[0]}"] in {tilde(config.path)}'
        raise CorralError(f"no price for {', '.join(missing)}", hint=hint, exit_code=4)
    return 0


def report(read: ReadTable, found: list[tuple[str, ModelRates | None]], at: float) -> dict[str, object]:
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


def render(
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


def parse_time(text: str) -> float:
    """Epoch seconds of a day or an ISO time; UTC where it names no zone."""
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
    """Exact, in dollars per million tokens."""
    return {
        "input": say_dollars(tier.input),
        "cache_read": say_dollars(tier.cache_read),
        "cache_write": say_dollars(tier.cache_write),
        "cache_write_1h": say_dollars(tier.cache_write_1h),
        "output": say_dollars(tier.output),
    }


def say_dollars(picos_per_token: int) -> str:
    """Exact, per million tokens."""
    whole, rest = divmod(picos_per_token, 10**6)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
