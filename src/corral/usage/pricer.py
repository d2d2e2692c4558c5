"""Prices events as they are stored, and notes whose price each model has."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from math import nextafter

from corral.machine.config import Config
from corral.model.prices import PICOS
from corral.model.usage import ModelSource, TokenUsage
from corral.usage.changes import price_stamp
from corral.usage.price_table import read_price_table
from corral.usage.prices.pricing import Prices, count_picos
from corral.usage.rows import Origin, Price, Pricer, Rows


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
