"""`corral prices`: the rates in force, own prices from the config, a refreshed table, and what is told when none fits."""

from __future__ import annotations

import json
import sys

import pytest

from corral.cli.main import main
from corral.machine.config import read_config
from corral.prices.build import build_table
from corral.usage.price_table import read_price_table, write_price_table

pytestmark = pytest.mark.usefixtures("own_directories")


def as_json(capsys, *words: str):
    assert main(["prices", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_rates_are_shown_with_their_source_and_day(capsys):
    assert main(["prices", "claude-sonnet-4-5", "--at", "2026-11-15"]) == 0
    text = capsys.readouterr().out
    table = read_price_table().table
    assert [line.split() for line in text.splitlines()[1:3]] == [
        ["claude-sonnet-4-5", "anthropic", "any", "3", "0.3", "3.75", "6", "15"],
        [">", "200k", "6", "0.6", "7.5", "12", "22.5"],
    ]
    assert f"source: {table.source} ({table.dated})" in text


def test_a_hidden_model_is_said_to_be_assumed(capsys):
    assert main(["prices", "kimi-for-coding", "--at", "2026-02-01"]) == 0
    assert "assumed: kimi-k2.5" in capsys.readouterr().out


def test_all_models_are_listed_when_none_is_named(capsys):
    models = {each["model"] for each in as_json(capsys)["models"]}
    assert {"kimi-k2.5", "kimi-auto", "qwen3-coder-plus"} <= models
    assert len(models) > 200


def test_json_has_exact_decimals_and_the_span_in_which_they_hold(capsys):
    (found,) = as_json(capsys, "qwen3-coder-flash", "--at", "2026-11-15T12:00")["models"]
    rates = found["rates"]
    assert [tier["above"] for tier in rates["tiers"]] == [0, 32_000, 128_000, 256_000]
    assert rates["tiers"][0]["cache_read"] == "0.08"
    assert (rates["since"], rates["until"], rates["assumed"]) == (None, None, False)
    assert rates["dated"]


def test_a_model_without_a_price_is_unpriced_and_the_exit_code_says_so(capsys):
    assert main(["prices", "no-such-model"]) == 4
    shown = capsys.readouterr()
    assert "unpriced" in shown.out
    assert "no price for no-such-model" in shown.err
    assert '[prices."no-such-model"]' in shown.err


def test_a_date_that_is_none_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as left:
        main(["prices", "--at", "yesterday"])
    assert left.value.code == 2


def test_own_prices_the_currency_and_plans_come_from_the_config(capsys, set_config):
    set_config(
        '[prices."my-model"]\ninput = 0.1\noutput = 2\ncache_write_1h = 0.25\n'
        '[prices."kimi-auto"]\nas = "kimi-k3"\n'
        '[currency]\ncode = "EUR"\nrate = 0.92\n[plans]\n"Kimi Allegretto" = 19\n'
    )
    assert main(["prices", "my-model", "kimi-auto"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["my-model", "0.1", "0.1", "0.1", "0.25", "2", "own", "price"]
    assert "as kimi-k3" in lines[2] and "assumed" not in lines[2]
    assert "currency: 1 USD = 0.92 EUR" in lines
    assert "plan: Kimi Allegretto 19 EUR a month" in lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[prices."m"]\ninput = 1\n', "needs `input` and `output`"),
        ('[prices."m"]\ninput = -1\noutput = 1\n', ">= 0"),
        ('[prices."m"]\ninput = nan\noutput = 1\n', ">= 0"),
        ('[prices."m"]\ninput = inf\noutput = 1\n', "<= 1000000"),
        ('[prices."m"]\ninput = 0.0000001\noutput = 1\n', "six decimals"),
        ('[prices."m"]\ninput = "1"\noutput = 1\n', "Expected `float | null`"),
        ('[prices."m"]\nas = "k"\ninput = 1\n', "either rates or `as`"),
        ('[prices."m"]\ninptu = 1\n', "inptu"),
        ('[currency]\ncode = "euro"\nrate = 1\n', "currency.code"),
        ('[currency]\ncode = "EUR"\nrate = 0\n', "currency.rate"),
        ('[currency]\ncode = "EUR"\nrate = nan\n', "currency.rate"),
        ('[currency]\ncode = "USD"\nrate = 2\n', "its rate is 1"),
        ("[plans]\nbig = -5\n", "plans"),
    ],
)
def test_a_setting_that_makes_no_sense_is_told_and_nothing_of_the_file_is_used(set_config, capsys, text, said):
    set_config(text)
    config = read_config()
    assert config.problem is not None and said in config.problem
    assert (config.prices, config.currency, config.plans) == ({}, None, {})
    assert main(["prices"]) == 1
    assert "until it is fixed" in capsys.readouterr().err


def test_refresh_keeps_a_table_of_ones_own(own_directories, capsys):
    assert main(["prices", "refresh"]) == 0
    path = own_directories / "data" / "prices.json"
    assert str(path) in capsys.readouterr().out
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_newer_table_is_in_force(own_directories):
    write_price_table(build_table("2000-01-01"))
    assert read_price_table().table.dated > "2026"
    write_price_table(build_table("2999-01-01"))
    assert read_price_table().table.dated == "2999-01-01"
    assert read_price_table().path == str(own_directories / "data" / "prices.json")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"schema": 1}', b'{"schema":2,"source":"","dated":"","vendors":[]}']
)
def test_a_refreshed_table_that_is_broken_is_passed_over_and_told(own_directories, capsys, content):
    (own_directories / "data").mkdir()
    (own_directories / "data" / "prices.json").write_bytes(content)
    assert main(["prices", "kimi-k2.5"]) == 0
    assert "passed over: " in capsys.readouterr().out


def test_refresh_without_genai_prices_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    monkeypatch.setitem(sys.modules, "genai_prices.data", None)
    assert main(["prices", "refresh"]) == 1
    shown = capsys.readouterr().err
    assert "not installed" in shown and "pip install" in shown


def test_showing_prices_does_not_import_genai_prices(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert main(["prices", "kimi-k2.5"]) == 0
