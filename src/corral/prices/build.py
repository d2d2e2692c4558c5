"""Making a price table: what an installed genai-prices knows about the vendors that matter, and the supplement.

Nothing here runs when a cost is asked for: only when the table is made, with the package or by `corral prices refresh`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import tomllib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from corral.prices import SUPPLEMENT

VENDORS = (
    "anthropic",
    "deepseek",
    "google",
    "minimax",
    "mistral",
    "moonshotai",
    "openai",
    "x-ai",
    "zai",
    "zhipuai",
)
_KINDS = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
_CLAUSES = {
    "equals": "equals",
    "starts_with": "prefixes",
    "ends_with": "suffixes",
    "contains": "contains",
    "regex": "patterns",
}

Json = dict[str, Any]


def build_table(day: str) -> str:
    """The table as JSON, one line per model. Raises ImportError where genai-prices is not installed."""
    found: Any = importlib.import_module("genai_prices.data")
    version = importlib.metadata.version("genai-prices")
    with open(SUPPLEMENT, "rb") as file:
        supplement = tomllib.load(file)
    prefixes = supplement["prefixes"]
    vendors = [_listed_vendor(each, prefixes.get(each.id, [])) for each in found.providers if each.id in VENDORS]
    for vendor in vendors:
        if (claims := supplement["claims"].get(vendor["id"])) is not None:
            vendor["match"] = {"prefixes": claims}
    vendors.sort(key=lambda vendor: vendor["id"] in supplement["claims"])
    vendors += [_supplied_vendor(each) for each in supplement["vendor"]]
    head = {"schema": 1, "source": f"genai-prices {version}", "dated": day, "hidden": supplement["hidden"]}
    return _write_lines(head, vendors)


def _write_lines(head: Json, vendors: Iterable[Json]) -> str:
    blocks: list[str] = []
    for vendor in vendors:
        models = ",\n".join(_compact(model) for model in vendor.pop("models"))
        blocks.append(_compact(vendor)[:-1] + ',"models":[\n' + models + "]}")
    return _compact(head)[:-1] + ',"vendors":[\n' + ",\n".join(blocks) + "]}\n"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _listed_vendor(found: Any, prefixes: list[str]) -> Json:
    vendor: Json = {"id": found.id, "prefixes": prefixes}
    if found.model_match is not None:
        vendor["match"] = _match([found.model_match])
    vendor["models"] = [
        {"id": each.id, "match": _match([each.match]), "prices": _listed_prices(each.prices)} for each in found.models
    ]
    return vendor


def _match(clauses: Iterable[Any]) -> Json:
    """Any of these clauses; alternatives within alternatives are laid flat."""
    match: dict[str, list[Any]] = {}
    waiting = list(clauses)
    while waiting:
        clause = waiting.pop(0)
        if (inner := getattr(clause, "or_", None)) is not None:
            waiting = [*inner, *waiting]
        elif (inner := getattr(clause, "and_", None)) is not None:
            match.setdefault("together", []).append([_match([each]) for each in inner])
        else:
            name = next(each for each in _CLAUSES if hasattr(clause, each))
            text: str = getattr(clause, name)
            match.setdefault(_CLAUSES[name], []).append(text if name == "regex" else text.lower())
    return match


def _listed_prices(prices: Any) -> list[Json]:
    if not isinstance(prices, list):
        return [{"tiers": _listed_tiers(prices)}]
    return [_conditional(each) for each in prices]  # pyright: ignore[reportUnknownVariableType]


def _conditional(price: Any) -> Json:
    rates: Json = {"tiers": _listed_tiers(price.prices)}
    constraint = price.constraint
    if (day := getattr(constraint, "start_date", None)) is not None:
        rates["since"] = day.isoformat()
    elif constraint is not None:
        rates["daily"] = [_second_of_day(constraint.start_time), _second_of_day(constraint.end_time)]
    return rates


def _second_of_day(time: Any) -> int:
    offset = time.utcoffset()
    second = time.hour * 3600 + time.minute * 60 + time.second - (int(offset.total_seconds()) if offset else 0)
    return second % 86_400


def _listed_tiers(price: Any) -> list[list[int | None]]:
    """One row for each size at which any rate changes; none if input or output has no price by the token."""
    listed = [getattr(price, f"{kind}_mtok") for kind in _KINDS]
    if listed[0] is None or listed[-1] is None:
        return []
    starts: set[int] = {tier.start for rate in listed if hasattr(rate, "tiers") for tier in rate.tiers}
    rows: list[list[int | None]] = [[0, *(_picos(getattr(rate, "base", rate)) for rate in listed)]]
    rows += [[start, *(_picos(_rate_above(rate, start)) for rate in listed)] for start in sorted(starts)]
    return rows


def _rate_above(rate: Any, start: int) -> Decimal | None:
    if not hasattr(rate, "tiers"):
        return rate
    chosen = rate.base
    for tier in rate.tiers:
        if tier.start <= start:
            chosen = tier.price
    return chosen


def _supplied_vendor(given: Json) -> Json:
    vendor: Json = {"id": given["id"], "prefixes": given["prefixes"], "match": {"prefixes": given["match"]}}
    vendor["models"] = [
        {
            "id": each["id"],
            "match": {"equals": each["names"]},
            "prices": [{"tiers": [_supplied_tier(tier) for tier in each["tiers"]]}],
            "source": given["source"],
            "dated": given["dated"],
        }
        for each in given["model"]
    ]
    return vendor


def _supplied_tier(tier: Json) -> list[int | None]:
    return [tier["above"], *(_picos(Decimal(tier[kind]) if kind in tier else None) for kind in _KINDS)]


def _picos(rate: Decimal | None) -> int | None:
    """Dollars per million tokens as picodollars per token: the same as millionths of a dollar per million."""
    if rate is None:
        return None
    picos = rate * 10**6
    if picos != int(picos):
        raise ValueError(f"{rate} is finer than a millionth of a dollar")
    return int(picos)
