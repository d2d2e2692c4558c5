"""What a request costs: equal to genai-prices wherever that has a price, and honest where nothing has one."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import genai_prices
import pytest
from genai_prices.data import providers as genai_vendors
from hypothesis import given
from hypothesis import strategies as st

from corral import prices
from corral.model.prices import PICOS, ListedTier, ModelRates, OwnPrice
from corral.model.usage import TokenUsage
from corral.prices.build import build_table
from corral.usage.price_table import parse_table
from corral.usage.prices import Prices, count_picos, find_listed, multiply, tier_for

TABLE = parse_table(Path(prices.TABLE).read_bytes())
PRICES = Prices(TABLE)
MILLION = 10**6
GENAI = {vendor.id: vendor for vendor in genai_vendors}


def price(rates: ModelRates | None, tokens: TokenUsage) -> Decimal | None:
    """Of one request, in dollars."""
    return None if rates is None else Decimal(count_picos(rates, tokens)) / PICOS


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


NOW = at("2026-11-15")
TIMES = [
    at("2024-06-01T00:00"),
    at("2025-02-01T12:00"),
    at("2025-03-01T00:29:59"),
    at("2025-03-01T00:30"),
    at("2026-03-01T16:30"),
    at("2026-08-01T01:00"),
    at("2026-08-15T09:59:59"),
    at("2026-11-15T20:00"),
    at("2027-02-01T06:30"),
]
SHARES = [
    TokenUsage(input=100),
    TokenUsage(input=7, cache_read=90, cache_write=2, cache_write_1h=1, output=50, reasoning=3),
    TokenUsage(input=40, cache_read=20, cache_write=15, cache_write_1h=25, output=9, reasoning=1),
]


def of_size(share: TokenUsage, size: int) -> TokenUsage:
    """A request with exactly `size` tokens of input, divided in that way."""
    read, write, hour = (size * part // 100 for part in (share.cache_read, share.cache_write, share.cache_write_1h))
    return TokenUsage(size - read - write - hour, read, write, hour, share.output * 101, share.reasoning * 11)


def usage_of(tokens: TokenUsage) -> genai_prices.Usage:
    """As genai-prices counts: cached input is part of the input, one-hour writes are part of the writes."""
    writes = tokens.cache_write + tokens.cache_write_1h
    return genai_prices.Usage(
        input_tokens=tokens.input + tokens.cache_read + writes,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=writes,
        cache_write_1h_tokens=tokens.cache_write_1h,
        output_tokens=tokens.output + tokens.reasoning,
    )


def priced_entries():
    return [
        pytest.param(vendor, listed, id=f"{vendor.id}/{listed.id}")
        for vendor in TABLE.vendors
        if vendor.id in GENAI
        for listed in vendor.models
        if all(rates.tiers for rates in listed.prices)
    ]


@pytest.mark.parametrize(("vendor", "listed"), priced_entries())
def test_a_cost_is_the_one_of_genai_prices_at_every_date_and_size(vendor, listed):
    edges = {tier.above for rates in listed.prices for tier in rates.tiers}
    sizes = sorted({0, 1, 999, 5 * MILLION} | edges | {edge + 1 for edge in edges})
    # The entry itself, not its name: an earlier rule of the vendor may catch the name (asked below).
    theirs = next(model for model in GENAI[vendor.id].models if model.id == listed.id)
    for time in TIMES:
        moment = datetime.fromtimestamp(time, UTC)
        rates = PRICES.rates_of(vendor, listed, time)
        for tokens in (of_size(share, size) for share in SHARES for size in sizes):
            expected = theirs.calc_price(usage_of(tokens), GENAI[vendor.id], genai_request_timestamp=moment)
            assert price(rates, tokens) == expected.total_price


def names_of(vendor):
    for listed in vendor.models:
        yield listed.id
        yield from listed.match.equals
        yield from (prefix + suffix for prefix in listed.match.prefixes for suffix in ("", "-20260102", "-2026-01-02"))


@pytest.mark.parametrize("vendor", [v for v in TABLE.vendors if v.id in GENAI], ids=lambda vendor: vendor.id)
def test_a_name_means_the_model_that_genai_prices_finds(vendor):
    for name in dict.fromkeys(names_of(vendor)):
        theirs = GENAI[vendor.id].find_model(name)
        ours = find_listed((vendor,), f"{vendor.prefixes[0]}/{name}")
        assert (ours and ours[1].id) == (theirs and theirs.id), name


@pytest.mark.parametrize(
    "name",
    [
        "kimi-k2.5",
        "kimi-k3",
        "claude-sonnet-4-5",
        "claude-opus-4-1-20250805",
        "gpt-5",
        "gemini-2.5-pro",
        "deepseek-chat",
        "grok-4",
        "glm-5",
    ],
)
@pytest.mark.parametrize("time", TIMES)
def test_a_bare_name_costs_what_genai_prices_says_without_a_vendor(name, time):
    tokens = of_size(SHARES[1], 250_000)
    expected = genai_prices.calc_price(
        usage_of(tokens), name, genai_request_timestamp=datetime.fromtimestamp(time, UTC)
    )
    assert price(PRICES.resolve(name, time), tokens) == expected.total_price


def test_a_bare_name_is_asked_of_every_vendor_that_claims_it():
    assert PRICES.resolve("glm-4.6", NOW).vendor == "zai"


def test_the_shipped_table_is_what_the_tool_makes_of_its_sources():
    assert parse_table(build_table(TABLE.dated).encode()) == TABLE


def test_each_request_is_of_its_own_tier():
    rates = PRICES.resolve("claude-sonnet-4-5", NOW)
    parts = [count_picos(rates, TokenUsage(input=100_000, output=100_000)) for _ in range(10)]
    assert price(rates, TokenUsage(input=MILLION, output=MILLION)) == Decimal("28.5")
    assert sum(parts) == 18 * PICOS


@pytest.mark.parametrize(
    ("size", "dollars_per_million"), [(32_000, "1"), (32_001, "1.8"), (128_001, "3"), (256_000, "3"), (256_001, "6")]
)
def test_qwen_has_four_tiers_by_context(size, dollars_per_million):
    tier = tier_for(PRICES.resolve("qwen3-coder-plus", NOW), TokenUsage(input=size))
    assert tier.input == Decimal(dollars_per_million) * MILLION


def test_cached_input_counts_towards_the_tier():
    rates = PRICES.resolve("claude-sonnet-4-5", NOW)
    assert price(rates, TokenUsage(input=1, cache_read=200_000)) == Decimal("0.120006")


def test_writes_for_an_hour_have_a_rate_of_their_own():
    rates = PRICES.resolve("claude-sonnet-4-5", NOW)
    assert price(rates, TokenUsage(cache_write=100_000)) == Decimal("0.375")
    assert price(rates, TokenUsage(cache_write_1h=100_000)) == Decimal("0.6")


def test_without_a_rate_for_writes_they_are_input_and_no_surcharge_is_invented():
    rates = PRICES.resolve("kimi-k2.5", NOW)
    assert price(rates, TokenUsage(cache_write=MILLION)) == Decimal("0.6")
    assert price(rates, TokenUsage(cache_write_1h=MILLION)) == Decimal("0.6")


def test_reasoning_is_output():
    rates = PRICES.resolve("gpt-5", NOW)
    assert price(rates, TokenUsage(reasoning=9)) == price(rates, TokenUsage(output=9))


@pytest.mark.parametrize(
    "name",
    ["no-such-model", "", "kimi", "qwen-unheard-of", "openrouter/moonshotai/kimi-k2.5", "text-embedding-3-small"],
)
def test_what_nobody_prices_is_unpriced_and_not_free(name):
    assert price(PRICES.resolve(name, NOW), TokenUsage(input=1000)) is None


def test_an_unknown_model_is_unpriced():
    assert PRICES.resolve(None, NOW) is None


@pytest.mark.parametrize(
    "name", ["kimi-for-coding", "kimi-code", "kimi-auto", "kimi-code/kimi-for-coding", "Kimi-For-Coding"]
)
@pytest.mark.parametrize(
    ("day", "model"),
    [
        ("2025-10-01", "kimi-k2-0905-preview"),
        ("2025-12-01", "kimi-k2-thinking"),
        ("2026-01-27", "kimi-k2.5"),
        ("2026-04-19T23:59:59", "kimi-k2.5"),
        ("2026-04-20", "kimi-k2.6"),
        ("2026-11-15", "kimi-k2.7-code"),
    ],
)
def test_a_hidden_model_is_priced_as_the_kimi_of_that_day_and_said_to_be_assumed(name, day, model):
    rates = PRICES.resolve(name, at(day))
    assert (rates.listed_as, rates.assumed) == (model, True)
    assert price(rates, TokenUsage(input=10)) == price(PRICES.resolve(model, at(day)), TokenUsage(input=10))


def test_a_hidden_model_has_no_price_before_it_was_there_and_one_afterwards():
    assert PRICES.resolve("kimi-auto", at("2024-01-01")) is None
    assert PRICES.resolve("kimi-auto", NOW) is not None


def test_source_and_day_are_with_each_price():
    assert PRICES.resolve("kimi-k2.5", NOW).origin == f"{TABLE.source} ({TABLE.dated})"
    assert PRICES.resolve("qwen3-max", NOW).origin.startswith("litellm")


@pytest.mark.parametrize("name", ["moonshot/kimi-k2.5", "moonshotai/kimi-k2.5", "KIMI-K2.5"])
def test_the_vendors_own_prefix_changes_nothing(name):
    assert PRICES.resolve(name, NOW).tiers == PRICES.resolve("kimi-k2.5", NOW).tiers


def test_own_rates_come_first():
    own = OwnPrice(tier=ListedTier(0, 2 * MILLION, None, None, None, 4 * MILLION))
    rates = Prices(TABLE, {"Kimi-For-Coding": own}).resolve("kimi-for-coding", NOW)
    assert (rates.source, rates.assumed) == ("own price", False)
    assert price(rates, TokenUsage(input=1, cache_read=1, output=1)) == Decimal("0.000008")


def test_the_rule_for_a_hidden_model_can_be_replaced():
    rates = Prices(TABLE, {"kimi-for-coding": OwnPrice(priced_as="kimi-k3")}).resolve(
        "kimi-for-coding", at("2025-01-01")
    )
    assert (rates.listed_as, rates.assumed) == ("kimi-k3", False)


def test_an_own_price_holds_for_the_name_with_its_vendor_too():
    prices_of_mine = Prices(TABLE, {"kimi-for-coding": OwnPrice(priced_as="kimi-k3")})
    assert prices_of_mine.resolve("kimi-code/kimi-for-coding", NOW).listed_as == "kimi-k3"


def test_a_name_of_ones_own_for_a_hidden_model_stays_assumed():
    rates = Prices(TABLE, {"work": OwnPrice(priced_as="kimi-for-coding")}).resolve("work", NOW)
    assert (rates.listed_as, rates.assumed) == ("kimi-k2.7-code", True)


def test_a_name_that_stands_for_itself_is_looked_up_once():
    assert Prices(TABLE, {"x": OwnPrice(priced_as="x")}).resolve("x", NOW) is None


MODELS = ["kimi-k2.5", "claude-sonnet-4-5", "qwen3-coder-plus", "deepseek-chat", "kimi-auto", "nobody"]
counts = st.integers(min_value=0, max_value=2 * MILLION)
tokens_of_a_request = st.builds(TokenUsage, counts, counts, counts, counts, counts, counts)
times = st.floats(min_value=1.76e9, max_value=1.9e9)


@given(st.sampled_from(MODELS[:-1]), times, st.lists(tokens_of_a_request, min_size=1, max_size=8))
def test_requests_of_one_tier_may_be_summed_before_they_are_multiplied(model, time, requests):
    rates = PRICES.resolve(model, time)
    by_tier = {}
    for tokens in requests:
        tier = tier_for(rates, tokens)
        by_tier[tier] = by_tier.get(tier, TokenUsage()) + tokens
    assert sum(multiply(tier, tokens) for tier, tokens in by_tier.items()) == sum(
        count_picos(rates, tokens) for tokens in requests
    )


@given(st.sampled_from(MODELS[:-1]), times, times)
def test_rates_hold_for_the_whole_span_that_they_name(model, time, other):
    rates = Prices(TABLE).resolve(model, time)
    assert rates.since <= time < rates.until
    if rates.since <= other < rates.until:
        assert Prices(TABLE).resolve(model, other).tiers == rates.tiers
