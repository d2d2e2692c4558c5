"""What was spent, asked of the server: also when the ledger was damaged while it ran, or can't be used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from corral.server.messages import UsageDocument
from tests.integration.server.serving import Serving
from tests.integration.terminals.held import wait_until
from tests.integration.usage.world import World, tear_first_page


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    world = World(tmp_path)
    world.session("s", *(world.line() for _ in range(40)))
    found = Serving(world)
    yield found
    found.kill()


def wait_for_reading(serving: Serving) -> None:
    """Until the server has read the logs and put the ledger away: it would find the damage by itself otherwise."""
    wait_until(lambda: (serving.sessions().get("s") or {}).get("usage"), "the first reading")
    assert serving.ask("GET", "/api/usage").body["total"]["events"] == 40


@pytest.mark.parametrize("by", ["day", "day,model", "project", "session", "tool"])
def test_the_answer_is_as_described(serving: Serving, by: str) -> None:
    wait_for_reading(serving)
    body = serving.ask("GET", f"/api/usage?by={by}").body
    assert body["rows"] or by == "tool"
    assert json.loads(msgspec.json.encode(msgspec.convert(body, UsageDocument))) == body


def test_a_page_that_is_torn_is_told_and_the_same_answer_is_right(serving: Serving) -> None:
    wait_for_reading(serving)
    tear_first_page(serving.world.state / "ledger.db", "quarters")
    report = serving.ask("GET", "/api/usage?by=day")
    assert report.status == 200 and report.body["total"]["events"] == 40
    assert "ledger.db.broken-" in report.body["notice"]
    assert serving.ask("GET", "/api/usage?by=day").body["notice"] is None


def test_a_ledger_that_can_not_be_used_is_refused_in_the_words_of_the_command_line(serving: Serving) -> None:
    wait_for_reading(serving)
    ledger = serving.world.state / "ledger.db"
    ledger.unlink()
    ledger.mkdir()
    refused = serving.ask("GET", "/api/usage")
    assert (refused.status, refused.reason) == (409, "ledger_unusable")
    assert f"the ledger below {serving.world.state} can't be used" in refused.body["error"]["message"]


def test_a_server_that_can_not_tell_what_was_spent_says_why_in_its_log(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.state / "ledger.db").mkdir(parents=True)
    serving = Serving(world)
    try:
        log = serving.files / "log.jsonl"
        wait_until(lambda: log.exists() and '"usage_not_read"' in log.read_text(), "the reason in the log")
        assert serving.ask("GET", "/api/sessions").body["usage_today"] is None
    finally:
        serving.kill()
