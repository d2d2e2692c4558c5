"""Reading many logs: two processes give what one gives, and nothing is lost when the other one dies."""

from __future__ import annotations

import os
import signal

import pytest

from corral.model.usage import UsageSource
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from corral.usage import read as usage_reading
from corral.usage.homes import ReportedSessions
from corral.usage.ledger import Ledger
from corral.usage.read import Pending, Reader, read_and_store, read_pending
from tests.unit.usage.readings import MadeUpPricer

LINE = (
    '{"timestamp": %d.5, "message": {"type": "StatusUpdate", "payload": {"token_usage": {"input_other": 10,'
    ' "output": 5}, "message_id": "%s"}}}\n'
)


@pytest.fixture
def pending(tmp_path):
    """Logs of 40 sessions, in chunks of two."""
    found = []
    for number in range(40):
        path = tmp_path / f"s{number}" / "wire.jsonl"
        path.parent.mkdir()
        path.write_text("".join(LINE % (1_794_000_000 + turn, f"m{number}-{turn}") for turn in range(number + 1)))
        source = UsageSource(
            provider="kimi-cli", home=str(tmp_path), scope="b", session_id=f"s{number}", path=str(path)
        )
        found.append(Pending(kimi_cli, source, None, path.stat().st_size))
    return found


@pytest.fixture
def two(monkeypatch):
    monkeypatch.setattr(usage_reading, "_WORTH_FORKING", 0)
    monkeypatch.setattr(usage_reading, "_CHUNK_FILES", 2)
    monkeypatch.setattr(usage_reading, "may_fork", lambda: True)


def make_reader(tmp_path):
    return Reader(MadeUpPricer(), ReportedSessions(str(tmp_path / "state")))


def by_path(found):
    some = [rows for chunk, _ in found for rows in chunk]
    assert len({rows.path for rows in some}) == len(some)
    return {rows.path: rows for rows in some}


def test_two_processes_find_what_one_finds(tmp_path, pending, monkeypatch, two):
    together = list(read_pending(make_reader(tmp_path), pending))
    monkeypatch.setattr(usage_reading, "may_fork", lambda: False)
    alone = list(read_pending(make_reader(tmp_path), pending))
    assert by_path(together) == by_path(alone)
    assert len(by_path(alone)) == 40
    assert sum(size for _, size in together) == sum(size for _, size in alone) == sum(one.size for one in pending)


def test_what_a_child_that_dies_had_taken_is_read_all_the_same(tmp_path, pending, two):
    class Mortal(Reader):
        """Dies in the child at its third file."""

        parent = os.getpid()
        read_files = 0

        def read(self, pending):
            self.read_files += 1
            if os.getpid() != self.parent and self.read_files == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().read(pending)

    found = by_path(read_pending(Mortal(MadeUpPricer(), ReportedSessions(str(tmp_path / "state"))), pending))
    assert len(found) == 40
    assert sum(len(rows.events) for rows in found.values()) == sum(range(41))


def test_a_reader_that_is_given_up_leaves_no_child_behind(tmp_path, pending, two, monkeypatch):
    children = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: children.append(pid := fork()) or pid)
    running = read_pending(make_reader(tmp_path), pending)
    next(running)
    running.close()
    (child,) = children
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


def test_a_file_that_is_gone_meanwhile_is_passed_over(tmp_path, pending, two):
    os.unlink(pending[7].source.path)
    assert len(by_path(read_pending(make_reader(tmp_path), pending))) == 39


def test_where_looking_around_takes_all_the_time_one_log_is_read_still(tmp_path, pending):
    ledger = Ledger(str(tmp_path / "ledger"))
    left = pending
    for count in (39, 38):
        left = read_and_store(ledger, make_reader(tmp_path), left, None, deadline=0.0)
        assert len(left) == count
    assert len(ledger.read_sources()) == 2
    ledger.close()
