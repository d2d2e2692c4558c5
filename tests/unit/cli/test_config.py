"""`corral config`: what is in force, for people and for programs, and what is told of a file that can't be used."""

from __future__ import annotations

import json

import pytest

from corral.cli.main import main
from corral.providers.registry import all_providers

pytestmark = pytest.mark.usefixtures("own_directories")

WHOLE = """
[homes]
kimi-cli = ["/mnt/data/.kimi"]
[programs]
kimi-code = "~/bin/kimi"
[prices."my-model"]
input = 0.6
output = 2.5
[prices."hidden"]
as = "kimi-k2.6"
[currency]
code = "EUR"
rate = 0.92
[plans]
"Kimi plan" = 19
[budget]
day = 2.5
month = 50
"""
FAULTS = [
    ('[homes]\nkimi = ["/x"]\n', "homes.kimi"),
    ('[programs]\nqwen = "/x"\n', "programs.qwen"),
    ('[homes]\nkimi-cli = ["data/.kimi"]\n', "absolute"),
    ('[programs]\nkimi-code = "bin/kimi"\n', "absolute"),
    ("[hoems]\n", "hoems"),
]


def test_everything_that_is_set_is_shown(set_config, own_directories, capsys):
    set_config(WHOLE)
    assert main(["config"]) == 0
    assert capsys.readouterr().out.splitlines()[4:] == [
        "home     kimi-cli: /mnt/data/.kimi",
        "program  kimi-code: ~/bin/kimi",
        "price    my-model: input 0.6, output 2.5 (US dollars per million tokens)",
        "price    hidden: as kimi-k2.6",
        "currency 1 USD = 0.92 EUR",
        "plan     Kimi plan: 19 EUR a month",
        "budget   2.5 EUR a day",
        "budget   50 EUR a month",
    ]


def test_a_model_that_is_priced_as_one_that_nobody_lists_is_told(set_config, own_directories, capsys):
    set_config('[prices."My-Model"]\nas = "nope"\n[prices."hidden"]\nas = "kimi-k2.6"\n')
    assert main(["config"]) == 0
    assert capsys.readouterr().out.splitlines()[4:] == [
        "price    My-Model: as nope  (no listed model has this name, so it has no price)",
        "price    hidden: as kimi-k2.6",
    ]
    assert main(["config", "--json"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "'my-model' is priced as 'nope'" in warning


def test_the_json_has_the_schema_and_money_as_decimal_strings(set_config, own_directories, capsys):
    set_config(WHOLE)
    assert main(["config", "--json"]) == 0
    unset = {"as": None, "input": None, "cache_read": None, "cache_write": None, "cache_write_1h": None, "output": None}
    assert json.loads(capsys.readouterr().out) == {
        "schema": 1,
        "path": str(own_directories / "config" / "config.toml"),
        "exists": True,
        "problem": None,
        "places": {name: str(own_directories / name) for name in ("state", "data", "cache")},
        "homes": {"kimi-cli": ["/mnt/data/.kimi"]},
        "programs": {"kimi-code": str(own_directories / "bin" / "kimi")},
        "prices": {"my-model": unset | {"input": "0.6", "output": "2.5"}, "hidden": unset | {"as": "kimi-k2.6"}},
        "currency": {"code": "EUR", "rate": "0.92"},
        "plans": {"Kimi plan": "19"},
        "detach_key": "ctrl-\\",
        "budgets": {"day": "2.5", "month": "50"},
        "warnings": [],
    }


@pytest.mark.parametrize(("text", "said"), FAULTS)
def test_a_faulty_file_is_told_by_every_command_and_the_defaults_hold(set_config, capsys, text, said):
    set_config(text + '[prices."my-model"]\ninput = 1\noutput = 1\n')
    assert main(["config"]) == 1
    assert said in capsys.readouterr().err
    assert main(["config", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert said in found["problem"] and (found["homes"], found["prices"]) == ({}, {})
    assert main(["ps"]) == 0
    assert said in capsys.readouterr().out
    for words in (["hooks"], ["show", "nothing"], ["pid", "1"], ["resume", "nothing"], ["usage"]):
        main(words)
        assert said in capsys.readouterr().err, words


def test_an_unknown_provider_is_answered_with_the_known_ones(set_config, capsys):
    set_config('[homes]\nkimi = ["/x"]\n')
    assert main(["config"]) == 1
    known = ", ".join(provider.name for provider in all_providers())
    assert "kimi-cli, kimi-code" in known and f"there are: {known}" in capsys.readouterr().err
