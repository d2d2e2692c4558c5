"""`corral usage --budget` and the budgets of the configuration: an exit code that can be relied on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.usage.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.session("s", *(world.line() for _ in range(1000)))
    return world


def price(world: World) -> float:
    """Of a thousand requests, all on 2026-11-06."""
    return float(world.usage()["total"]["cost"]["amount"])


def test_exit_code_one_says_that_more_was_spent(world: World) -> None:
    spent = price(world)
    within = world.run("usage", "--since", "2026-11-01", "--budget", str(spent * 2))
    assert within.returncode == 0
    assert "50%" in within.stdout and "over the budget" not in within.stdout
    over = world.run("usage", "--since", "2026-11-01", "--budget", str(spent / 2))
    assert over.returncode == 1
    assert "200%" in over.stdout and "over the budget" in over.stdout
    later = world.run("usage", "--since", "2026-11-10", "--budget", str(spent / 2))
    assert later.returncode == 0


def test_just_the_budget_is_not_over(world: World) -> None:
    assert world.run("usage", "--budget", str(world.usage()["total"]["cost"]["amount"])).returncode == 0


def test_a_budget_is_per_period_when_rows_are_periods(world: World) -> None:
    early = world.line().replace("1794", "1791")
    world.session("s", early)
    done = world.run("usage", "--by", "month", "--budget", "0.1", "--json")
    budget = json.loads(done.stdout)["budget"]
    assert done.returncode == 1
    assert budget["per"] == "month"
    assert [(period["key"], period["over"]) for period in budget["periods"]] == [("2026-10", False), ("2026-11", True)]
    assert world.run("usage", "--by", "day", "--budget", "100").returncode == 0


def test_requests_without_a_price_are_said_and_do_not_fail_it(world: World) -> None:
    world.set_model("a-model-that-nobody-sells")
    world.session("t", world.line())
    done = world.run("usage", "--budget", "1000")
    assert done.returncode == 0
    assert "at least" in done.stdout and "more may have been spent" in done.stdout
    assert json.loads(world.run("usage", "--budget", "1000", "--json").stdout)["budget"]["at_least"] is True


def test_the_budget_is_in_the_configured_currency(world: World) -> None:
    spent = price(world)
    config = world.root / ".config" / "corral"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[currency]\ncode = "JPY"\nrate = 150\n')
    assert world.run("usage", "--budget", str(spent * 2)).returncode == 1
    done = world.run("usage", "--budget", str(spent * 151))
    assert done.returncode == 0 and "JPY" in done.stdout


@pytest.mark.parametrize("amount", ["", "much", "-5", "0", "nan", "inf"])
def test_what_is_no_amount_is_told_so(world: World, amount: str) -> None:
    done = world.run("usage", f"--budget={amount}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not an amount" in done.stderr
