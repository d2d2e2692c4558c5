"""Logs that are older than what is asked about wait to be read, and nothing is lost or counted twice for it."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from datetime import UTC

import pytest

from corral.model.usage_report import UsageQuery, UsageReport
from corral.providers.registry import find_provider
from corral.usage.answers import ask_ledger
from corral.usage.changes import update_ledger
from corral.usage.check import check_usage
from corral.usage.ledger import Ledger
from corral.usage.report import report_usage
from corral.usage.scan import VANISHED, may_wait, read_waiting
from tests.integration.usage.world import World
from tests.usage_truth.forks import CHAIN, CHATS, C, Files, ForksHome, G, P, forks_home, qwen_month, qwen_record

NOW = time.time()
DAY = 86_400.0
OLD, WEEK = NOW - 30 * DAY, NOW - 7 * DAY
A, B = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "ab")
PARENT = {f"{CHATS}/{A}.jsonl": qwen_record(A, 1, 1) + qwen_record(A, 2, 10)}
FORK = {f"{CHATS}/{B}.jsonl": qwen_record(B, 1, 1, A) + qwen_record(B, 3, 100)}
MONTH = {".qwen/usage/token-usage-2026-10.jsonl": qwen_month(A, 1, 1) + qwen_month(A, 2, 10) + qwen_month(B, 3, 100)}


def logs(files: Files) -> Files:
    return {path: data for path, data in files.items() if path.endswith(".jsonl")}


def ask(since: float | None = None) -> UsageReport:
    def report(ledger: Ledger) -> UsageReport:
        update_ledger(ledger, since=since)
        return report_usage(ledger, UsageQuery(by=("session",), since=since, zone=UTC))

    return ask_ledger(report)


def wait(home: ForksHome, old: Files, new: Files) -> None:
    """`old` is listed and waits; `new` is read."""
    home.write(old | new)
    home.age(logs(old), OLD)
    home.scan(since=WEEK)
    assert sorted(home.list_waiting()) == sorted(logs(old))


@pytest.mark.parametrize("old", [(G,), (P,), (G, P), (C,)], ids=str)
def test_a_copy_counts_until_the_parent_is_read_and_the_total_stays(old: tuple[str, ...]) -> None:
    """Kimi Code: a chain of forks, of which some are old."""
    chain = {name: files for name, files in CHAIN.items() if name in (G, P, C)}
    with forks_home() as home:
        waiting = {path: data for name in old for path, data in chain[name].items()}
        wait(home, waiting, {path: data for name in chain.keys() - {*old} for path, data in chain[name].items()})
        assert home.total() == (11 if C in old else 111)
        home.scan()
        assert home.list_waiting() == [] and home.total() == 111
        assert home.owners() == {1: G, 10: P, 100: C}
        assert home.result() == home.cold()


def test_qwens_copies_belong_to_their_origin_though_its_log_waits() -> None:
    with forks_home() as home:
        wait(home, PARENT, FORK | MONTH)
        assert home.total() == 101 and home.owners() == {1: A, 100: B}
        home.scan()
        assert home.total() == 111 and home.result() == home.cold()


def test_a_log_that_vanished_unread_is_named_and_counts_when_it_comes_back() -> None:
    with forks_home() as home:
        wait(home, CHAIN[G], CHAIN[P])
        (path,) = logs(CHAIN[G])
        os.rename(home.root / path, home.root / "aside")
        report = ask()
        assert [(skip.path, skip.reason) for skip in report.skipped] == [(str(home.root / path), VANISHED)]
        assert report.unread is None and home.total() == 11
        assert [skip.reason for skip in ask().skipped] == [VANISHED]
        os.rename(home.root / "aside", home.root / path)
        assert ask().skipped == () and home.owners() == {1: G, 10: P}
        assert home.result() == home.cold()


def test_the_month_stands_in_for_a_transcript_that_vanished_unread() -> None:
    with forks_home() as home:
        wait(home, PARENT, MONTH)
        assert home.total() == 100
        home.remove(PARENT)
        assert ask().total.tokens.input == 111
        assert check_usage(None).is_right


def test_a_log_that_waits_and_grows_is_read() -> None:
    with forks_home() as home:
        wait(home, PARENT, FORK)
        (path,) = PARENT
        home.append(path, qwen_record(A, 4, 1000))
        assert ask(WEEK).unread is None
        assert home.total() == 1111 and home.result() == home.cold()


def test_pieces_are_read_the_oldest_first_and_end_with_the_whole() -> None:
    with forks_home() as home:
        wait(home, CHAIN[G] | CHAIN[P], CHAIN[C])
        home.age(logs(CHAIN[P]), OLD - DAY)
        home.scan(since=WEEK)
        left = []
        for _ in range(2):
            ask_ledger(lambda ledger: read_waiting(ledger, 0.0))
            left.append(home.list_waiting())
        assert left == [[*logs(CHAIN[G])], []]
        home.scan()
        assert home.result() == home.cold()


def test_what_others_have_read_meanwhile_does_not_wait_again() -> None:
    with forks_home() as home:
        home.write(PARENT | FORK)
        home.age(PARENT, OLD)
        home.scan(home.scan, since=WEEK)
        home.scan(since=WEEK)
        assert home.list_waiting() == [] and home.total() == 111


@pytest.mark.parametrize(
    "damage",
    ["UPDATE sources SET deferred = 0 WHERE deferred", "DELETE FROM sources WHERE deferred"],
)
def test_damage_hides_no_log_that_waits(damage: str) -> None:
    with forks_home() as home:
        wait(home, PARENT, FORK)
        with sqlite3.connect(home.path) as db:
            assert db.execute(damage).rowcount == 1
        db.close()
        assert ask().total.tokens.input == 111
        assert list(home.path.parent.glob("ledger.db.broken-*"))


def test_only_files_of_which_a_provider_says_so_may_wait(tmp_path) -> None:
    from msgspec import structs

    from corral.model.usage import UsageSource

    log = tmp_path / "wire.jsonl"
    log.touch()
    os.utime(log, (OLD, OLD))
    provider = find_provider("kimi-cli")
    source = UsageSource(provider="kimi-cli", home="/h", scope="", session_id="s", path=str(log))
    silent = structs.replace(provider, usage=structs.replace(provider.usage, dated_by_file=False))
    seen, cutoff = os.stat(log), int(WEEK * 1e9)
    assert [may_wait(one, source, seen, cutoff) for one in (provider, silent)] == [True, False]
    assert not may_wait(provider, source, seen, None)
    odd = structs.replace(source, path="/h/\udcff")
    assert not may_wait(provider, odd, seen, cutoff), "it could not be found again"


class TestCommand:
    """`corral usage` itself."""

    def age(self, world: World) -> None:
        for name, at in (("old", OLD), ("late", NOW)):
            path = world.session(name, json.dumps(json.loads(world.line()) | {"timestamp": at}) + "\n")
            os.utime(path, (at, at))

    def test_an_answer_reads_what_it_needs_and_says_what_waits(self, tmp_path) -> None:
        world = World(tmp_path)
        self.age(world)
        report = world.usage("--since", "7d")
        assert report["total"]["events"] == 1 and report["unread"]["files"] == 1
        assert any("1 log (0.0 MB) not read yet" in note for note in report["notes"])
        again = world.usage("--since", "7d")
        assert again["unread"] is None and again["total"] == report["total"], "it was read after the answer"
        assert world.events() == 2

    def test_a_question_about_everything_reads_everything(self, tmp_path) -> None:
        world = World(tmp_path)
        self.age(world)
        assert world.usage()["unread"] is None
        assert world.usage("--since", "2020-01-01")["total"]["events"] == 2
