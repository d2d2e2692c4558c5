"""Prices events as they are stored: the rates of their day and size, from the table and the configuration in force."""

from __future__ import annotations

from corral.engine.footing import price_stamp
from corral.model.prices import PICOS
from corral.model.usage import ModelSource, TokenUsage
from corral.store.ledger_rows import Price
from corral.system.config import Config
from corral.system.price_table import read_price_table
from corral.verdicts.pricing import Prices, count_picos


class TablePricer:
    """Prices by one table and one configuration, known by their stamp."""

    def __init__(self, config: Config) -> None:
        self.stamp = price_stamp()
        self._prices = Prices(read_price_table().table, config.prices)

    def price(self, model: str | None, model_source: str, at: float, tokens: TokenUsage) -> Price:
        rates = self._prices.resolve(model, at)
        if rates is None:
            return None, None, 0
        dollars, picos = divmod(count_picos(rates, tokens), PICOS)
        return dollars, picos, int(rates.assumed or model_source != ModelSource.RECORDED)
