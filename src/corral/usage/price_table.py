"""The price table in force: the rates of models by it, the price of an event, and a newer table on request."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import nextafter

import msgspec
from msgspec import Struct

from corral.errors import CorralError
from corral.machine.config import Config
from corral.machine.places import data_dir
from corral.model.prices import PICOS, ModelRates, PriceTable
from corral.model.usage import ModelSource, TokenUsage
from corral.prices import TABLE
from corral.usage.changes import price_stamp
from corral.usage.prices import Prices, count_picos
from corral.usage.rows import Origin, Price, Pricer, Rows

_NAME = "prices.json"
_SCHEMA = 1
_MOST_BYTES = 1 << 24


class ReadTable(Struct, frozen=True, kw_only=True):
    """A table, the file it is from, and why the person's own table was passed over, if it was."""

    table: PriceTable
    path: str
    problem: str | None = None


def read_price_table() -> ReadTable:
    """The newer of the two tables; the package's, if the other is not there or can't be used."""
    with open(TABLE, "rb") as file:
        shipped = msgspec.json.decode(file.read(), type=PriceTable)
    path = refreshed_path()
    try:
        with open(path, "rb") as file:
            refreshed = parse_table(file.read(_MOST_BYTES))
    except FileNotFoundError:
        return ReadTable(table=shipped, path=TABLE)
    except (OSError, ValueError) as error:
        return ReadTable(table=shipped, path=TABLE, problem=f"{path}: {error}")
    if refreshed.dated < shipped.dated:
        return ReadTable(table=shipped, path=TABLE)
    return ReadTable(table=refreshed, path=path)


def refreshed_path() -> str:
    """Where a refreshed table is, or would be."""
    return os.path.join(data_dir(), _NAME)


def parse_table(data: bytes) -> PriceTable:
    """Raises ValueError for anything but a whole table of this schema."""
    table = msgspec.json.decode(data, type=PriceTable)
    if table.schema != _SCHEMA:
        raise ValueError(f"schema {table.schema} is unknown")
    return table


def write_price_table(text: str) -> PriceTable:
    """Keep a refreshed table, readable by its owner alone. Raises OSError, or ValueError if it is no table."""
    from corral.sidecar.atomic import Directory, replace

    data = text.encode()
    table = parse_table(data)
    os.makedirs(data_dir(), mode=0o700, exist_ok=True)
    with Directory(data_dir()) as directory:
        replace(directory, _NAME, data, None)
    return table


_NOT_INSTALLED = "pip install --upgrade genai-prices, into the environment in which corral runs, and again"


def list_prices(
    config: Config, names: Sequence[str], at: float
) -> tuple[ReadTable, list[tuple[str, ModelRates | None]]]:
    """The table in force, and the rates of these models, or of all that have a price."""
    read = read_price_table()
    prices = Prices(read.table, config.prices)
    asked: list[tuple[str, ModelRates | None]] = [(name, prices.resolve(name, at)) for name in names]
    return read, asked or _list_all(prices, config, at)


def _list_all(prices: Prices, config: Config, at: float) -> list[tuple[str, ModelRates | None]]:
    """Own prices, hidden models, then the table; entries without a price by the token are left out."""
    names = [*config.prices, *(name for hidden in prices.table.hidden for name in hidden.names if "/" not in name)]
    found = [(name, prices.resolve(name, at)) for name in dict.fromkeys(names)]
    for vendor in prices.table.vendors:
        found += [(listed.id, prices.rates_of(vendor, listed, at)) for listed in vendor.models]
    return [(name, rates) for name, rates in found if rates is not None]


def refresh_prices() -> tuple[PriceTable, str]:
    """A newer table from an installed genai-prices, and where it is now. Raises CorralError."""
    from corral.prices.build import build_table

    try:
        text = build_table(datetime.now(UTC).date().isoformat())
    except ImportError:
        raise CorralError("genai-prices is not installed; corral fetches nothing itself", hint=_NOT_INSTALLED) from None
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        raise CorralError(f"this genai-prices has a form that corral does not know: {error}") from None
    try:
        return write_price_table(text), refreshed_path()
    except OSError as error:
        raise CorralError(f"{refreshed_path()}: {error.strerror}") from None


class TablePricer:
    """Prices by one table and one configuration, known by their stamp."""

    def __init__(self, config: Config) -> None:
        self.stamp = price_stamp()
        self._prices = Prices(read_price_table().table, config.prices)

    def list_unknown(self) -> dict[str, str]:
        """Models that the configuration prices as one that is not listed; as which one."""
        return self._prices.list_unknown()

    def price(self, model: str | None, model_source: str, at: float, tokens: TokenUsage) -> Price:
        rates = self._prices.resolve(model, at)
        if rates is None:
            return None, None, 0
        dollars, picos = divmod(count_picos(rates, tokens), PICOS)
        return dollars, picos, int(rates.assumed or model_source != ModelSource.RECORDED)

    def list_origins(self, model: str, first: float, last: float) -> list[Origin]:
        """Where its prices between two times come from: a model may stand for one and later for another."""
        found: list[Origin] = []
        at = last  # backwards: the first requests may be older than any price
        while at >= first and (rates := self._prices.resolve(model, at)) is not None:
            origin = (rates.listed_as, rates.source, rates.dated, int(rates.assumed))
            if origin not in found:
                found.append(origin)
            at = nextafter(rates.since, 0.0) if rates.since > 0 else -1.0
        return found


_SPANS = "SELECT model, min(at), max(at) FROM events WHERE model IS NOT NULL GROUP BY model"


def note_origins(db: sqlite3.Connection, pricer: Pricer, stored: Iterable[Rows]) -> None:
    """Of the models in rows that were stored, within the caller's transaction."""
    spans: dict[str, tuple[float, float]] = {}
    for rows in stored:
        for row in rows.events:
            at, model = row[3], row[5]
            if model is not None:
                first, last = spans.get(model, (at, at))
                if at < first or at > last or model not in spans:
                    spans[model] = (min(first, at), max(last, at))
    _note(db, pricer, ((model, *span) for model, span in spans.items()))


def note_all_origins(db: sqlite3.Connection, pricer: Pricer) -> None:
    """Of every model, by other prices than before."""
    db.execute("DELETE FROM prices")
    _note(db, pricer, db.execute(_SPANS).fetchall())


def _note(db: sqlite3.Connection, pricer: Pricer, spans: Iterable[tuple[str, float, float]]) -> None:
    found = [(model, *origin) for model, first, last in spans for origin in pricer.list_origins(model, first, last)]
    db.executemany(
        "INSERT OR IGNORE INTO prices (model, listed_as, source, dated, assumed) VALUES (?, ?, ?, ?, ?)", found
    )
