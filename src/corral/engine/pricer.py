"""Prices events as they are stored: the rates of their day and size, from the table and the configuration in force."""

from __future__ import annotations

from math import nextafter

from corral.engine.footing import price_stamp
from corral.model.prices import PICOS
from corral.model.usage import ModelSource, TokenUsage
from corral.store.ledger_rows import Origin, Price
from corral.system.config import Config
from corral.system.price_table import read_price_table
from corral.verdicts.pricing import Prices, count_picos


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
