"""Where prices come from is told for the whole time in which a model was used."""

from __future__ import annotations

import time

from corral.machine.config import Config
from corral.model.prices import ListedTier, OwnPrice
from corral.usage.price_table import TablePricer, read_price_table

TABLE = read_price_table().table


def test_a_listed_model_has_one_origin() -> None:
    assert TablePricer(Config(path="/none")).list_origins("kimi-k2.5", 1.77e9, 1.79e9) == [
        ("kimi-k2.5", TABLE.source, TABLE.dated, 0)
    ]


def test_a_hidden_model_has_one_for_each_model_that_it_stood_for() -> None:
    (hidden,) = (one for one in TABLE.hidden if "kimi-for-coding" in one.names)
    found = TablePricer(Config(path="/none")).list_origins("kimi-for-coding", 0.0, time.time())
    assert len({listed_as for listed_as, *_ in found}) > 1
    assert {listed_as for listed_as, *_ in found} <= {stand.model for stand in hidden.stands}
    assert all(assumed for *_, assumed in found)


def test_own_prices_have_no_day_and_unknown_models_no_origin() -> None:
    tier = ListedTier(above=0, input=1, cache_read=None, cache_write=None, cache_write_1h=None, output=2)
    pricer = TablePricer(Config(path="/none", prices={"mine": OwnPrice(tier=tier)}))
    assert pricer.list_origins("mine", 1.0, 2e9) == [("mine", "own price", "", 0)]
    assert pricer.list_origins("nobody-knows-it", 1.0, 2e9) == []
