"""However the logs grow, whoever scans them when, and however much of them: the ledger is that of one full scan."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from corral.model.usage_report import UsageQuery
from corral.usage.changes import update_ledger
from corral.usage.ledger import Ledger
from corral.usage.report import report_usage
from corral.usage.scan import read_waiting
from tests.long_run import WORLDS
from tests.usage_truth.forks import InterruptedLedger
from tests.usage_truth.world import World, dump

_EXAMPLES = settings(max_examples=WORLDS, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


class _Growing:
    """A world whose logs are appended to piece by piece, at any byte."""

    def __init__(self, root: Path, seed: int) -> None:
        self.world = World(root, seed)
        content = self.world.content()
        self.logs = {path: data for path, data in sorted(content.items()) if path.endswith(".jsonl")}
        self.written = dict.fromkeys(self.logs, 0)
        for path in content.keys() - self.logs.keys():
            self._append(path, content[path])

    def _append(self, path: str, data: bytes) -> None:
        """The file is as young as the youngest record in it, and no younger."""
        place = self.world.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place, "ab") as file:
            file.write(data)
        youngest = find_youngest(place.read_bytes())
        if youngest is not None:
            os.utime(place, (youngest, youngest))

    def grow(self, pieces: Iterable[tuple[int, float]]) -> None:
        """Of each chosen log a part of what is missing."""
        paths = list(self.logs)
        for number, share in pieces:
            path = paths[number % len(paths)]
            begin = self.written[path]
            end = begin + max(1, round((len(self.logs[path]) - begin) * share))
            self._append(path, self.logs[path][begin:end])
            self.written[path] = min(end, len(self.logs[path]))

    def finish(self) -> None:
        self.grow((number, 1.0) for number in range(len(self.logs)))

    def scan(self, between: Callable[[], None] | None = None, since: float | None = None) -> None:
        ledger = InterruptedLedger(str(Path(self.world.ledger_path).parent), between)
        try:
            update_ledger(ledger, since=since)
        finally:
            ledger.close()

    def ask(self, since: float) -> list[object]:
        """What was used since then, by session and model, after no more was read than that needs."""
        ledger = Ledger(str(Path(self.world.ledger_path).parent))
        try:
            update_ledger(ledger, since=since)
            query = UsageQuery(by=("session",), since=since, zone=UTC)
            models = report_usage(ledger, query._replace(by=("model",)))
            report = report_usage(ledger, query)
            return [report.rows, report.total, report.unrecorded, models.rows]
        finally:
            ledger.close()

    def list_waiting(self) -> set[str]:
        with sqlite3.connect(self.world.ledger_path) as db:
            return {path for (path,) in db.execute("SELECT path FROM sources WHERE deferred")}

    def read_piece(self) -> None:
        ledger = Ledger(str(Path(self.world.ledger_path).parent))
        try:
            read_waiting(ledger, 0.0)
        finally:
            ledger.close()

    def find_times(self) -> list[float]:
        """When each log was last written, and what lies between."""
        times = sorted({(self.world.root / path).stat().st_mtime for path, size in self.written.items() if size})
        return [(one + other) / 2 for one, other in pairwise([times[0] - 9, *times, times[-1] + 9])]

    def result(self) -> list[tuple[object, ...]]:
        return dump(self.world.ledger_path)


_TIMES = (
    (re.compile(rb'"timestamp": ([0-9]{10}[.0-9]*)'), 1.0),
    (re.compile(rb'"time":([0-9]{13})'), 1e-3),
)
_DATES = re.compile(rb'"(?:event\.)?timestamp": ?"([0-9T:.-]{10,30}Z)"')


_LATEST = 4e9


def find_youngest(data: bytes) -> float | None:
    found = [float(stamp) * unit for pattern, unit in _TIMES for stamp in pattern.findall(data)]
    found += [datetime.fromisoformat(stamp.decode()).timestamp() for stamp in _DATES.findall(data)]
    return max((at for at in found if at < _LATEST), default=None)  # some records have times that nobody can have


@pytest.fixture(autouse=True, scope="module")
def small_margin() -> Iterator[None]:
    """Worlds are made in less than a day: within the real margin nothing would wait. A sub-agent's event is in its
    parent's log a moment later than in its own."""
    with mock.patch("corral.usage.changes.MARGIN_S", 60.0):
        yield


_PIECES = st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1)), max_size=25)
_STEPS = st.lists(st.tuples(_PIECES, st.none() | _PIECES), min_size=1, max_size=6)


@_EXAMPLES
@example(seed=1978, steps=[([(34, 1.0)], None), ([(37, 1.0)], None)])  # Qwen: a fork, and its parent's parent
@given(seed=st.integers(0, 10_000), steps=_STEPS)
def test_any_growth_and_any_interleaving_of_scans_gives_one_full_scan(
    seed: int, steps: list[tuple[list[tuple[int, float]], list[tuple[int, float]] | None]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        growing = _Growing(Path(folder), seed)
        with mock.patch.dict(os.environ, growing.world.env, clear=True):
            for pieces, meanwhile in steps:
                growing.grow(pieces)
                if meanwhile is None:
                    growing.scan()
                else:

                    def others(more: list[tuple[int, float]] = meanwhile) -> None:
                        growing.grow(more)
                        growing.scan()

                    growing.scan(others)
            growing.finish()
            growing.scan()
            stepwise = growing.result()
            os.remove(growing.world.ledger_path)
            growing.scan()
            at_once = growing.result()
        note(f"only stepwise: {[row for row in stepwise if row not in at_once][:5]}")
        note(f"only at once: {[row for row in at_once if row not in stepwise][:5]}")
        assert stepwise == at_once
        assert len([row for row in at_once if row[0] == "events"]) == len(growing.world.truth.requests)


@_EXAMPLES
@given(
    seed=st.integers(0, 10_000),
    steps=st.lists(st.tuples(_PIECES, st.floats(0, 1), st.booleans()), min_size=1, max_size=6),
    gone=st.lists(st.integers(0, 60), max_size=10),
)
def test_any_order_of_partial_readings_and_deletions_gives_one_full_reading(
    seed: int, steps: list[tuple[list[tuple[int, float]], float, bool]], gone: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        growing = _Growing(Path(folder), seed)
        with mock.patch.dict(os.environ, growing.world.env, clear=True):
            for pieces, place, reads_on in steps:
                growing.grow(pieces)
                times = growing.find_times() if any(growing.written.values()) else [0.0]
                growing.scan(since=times[int(place * (len(times) - 1))])
                if reads_on:
                    growing.read_piece()
            growing.finish()
            times = growing.find_times()
            since = times[int(steps[-1][1] * (len(times) - 1))]
            partly = growing.ask(since)
            kept = growing.world.ledger_path
            os.rename(kept, f"{kept}.partly")
            growing.scan()
            at_once = growing.result()
            assert partly == growing.ask(since)
            os.rename(f"{kept}.partly", kept)
            paths = [path for path in growing.logs if str(growing.world.root / path) not in growing.list_waiting()]
            for number in gone if paths else ():
                (growing.world.root / paths[number % len(paths)]).unlink(missing_ok=True)
            growing.scan()
            partial = growing.result()
        note(f"only by parts: {[row for row in partial if row not in at_once][:5]}")
        note(f"only at once: {[row for row in at_once if row not in partial][:5]}")
        assert partial == at_once
