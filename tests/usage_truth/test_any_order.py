"""However the logs grow and whoever scans them when, the ledger is that of one full scan."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from corral.engine.account import update_ledger
from corral.store.ledger import Ledger, Reading
from tests.usage_truth.world import World, dump

_EXAMPLES = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


class _Interrupted(Ledger):
    """A scan in another process: between its reading and its storing others do as they like."""

    between: Callable[[], None]

    def store(self, readings: Iterable[Reading]) -> None:
        self.between()
        super().store(readings)


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
        place = self.world.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place, "ab") as file:
            file.write(data)

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

    def scan(self, between: Callable[[], None] | None = None) -> None:
        ledger = _Interrupted(str(Path(self.world.ledger_path).parent))
        ledger.between = between or (lambda: None)
        try:
            update_ledger(ledger)
        finally:
            ledger.close()

    def result(self) -> list[tuple[object, ...]]:
        return dump(self.world.ledger_path)


_PIECES = st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1)), max_size=25)
_STEPS = st.lists(st.tuples(_PIECES, st.none() | _PIECES), min_size=1, max_size=6)


@_EXAMPLES
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
