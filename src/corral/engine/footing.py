"""What an unchanged answer rests on beside the logs: version, variables, configuration, prices, the day.

Standard library only: it is compared on every run, and made anew only when it differs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from decimal import Decimal

from corral.prices import TABLE
from corral.store.ledger import Ledger
from corral.system.light_import import import_msgspec
from corral.system.places import config_dir, data_dir
from corral.version import __version__

CURRENCY, CONFIG_PROBLEM, UNKNOWN_PRICES = "currency", "config problem", "unknown prices"


def price_stamp() -> str:
    """Equal as long as every price is: the tables and the configuration are the same files."""
    paths = (TABLE, os.path.join(data_dir(), "prices.json"), os.path.join(config_dir(), "config.toml"))
    return "\0".join((__version__, *map(_stamp, paths)))


def make_footing(variables: Sequence[str], deciders: Sequence[str]) -> str:
    """`variables` and `deciders` (files and directories) are what decides where homes lie."""
    values = [f"{name}={os.environ.get(name)}" for name in variables]
    # A relative path in a variable means another place in another directory.
    here = os.getcwd() if any(os.environ.get(name, "/")[:1] not in ("/", "~") for name in variables) else ""
    # Listing everything once a day mends what no directory's time could tell.
    today = str(int(time.time()) // 86_400)
    return "\0".join(
        (price_stamp(), os.path.expanduser("~"), here, today, *values, *(f"{path}:{_stamp(path)}" for path in deciders))
    )


def find_currency(ledger: Ledger) -> tuple[str, Decimal]:
    """The currency in which money is shown, and how much of it a dollar is."""
    known = ledger.find_memo(CURRENCY) if not ledger.read_only else None
    if known is not None:
        code, _, rate = known.decode().partition(" ")
        return code, Decimal(rate)
    import_msgspec()
    from corral.engine.settings import read_settings

    currency = read_settings().currency
    return (currency.code, currency.rate) if currency else ("USD", Decimal(1))


def find_unknown_prices(ledger: Ledger) -> dict[str, str]:
    """Models, in lower case, that the configuration prices as one that nobody lists; as which one."""
    kept = ledger.find_memo(UNKNOWN_PRICES)
    if not kept:
        return {}
    import json

    return json.loads(kept)


def may_have_problem(ledger: Ledger) -> bool:
    """False when the configuration is known to be in order."""
    return ledger.read_only or ledger.find_memo(CONFIG_PROBLEM) != b""


def _stamp(path: str) -> str:
    """Of a directory only that it is one: what lies in it is watched on its own."""
    try:
        seen = os.stat(path)
    except OSError:
        return "-"
    if os.path.isdir(path):
        return f"{seen.st_dev}:{seen.st_ino}"
    return f"{seen.st_dev}:{seen.st_ino}:{seen.st_size}:{seen.st_mtime_ns}"
