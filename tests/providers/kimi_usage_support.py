"""What the usage tests of both Kimis share: a wire log to write and read, and what holds for either's."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.model.usage import TokenUsage, UsageBatch, UsageEvent, UsageSource
from corral.providers.kit import blocks
from corral.providers.kit.usage_files import read_source
from tests.providers.kimi_support import ODD_LINES


class WireLog(msgspec.Struct, frozen=True, kw_only=True):
    """How a test writes, names and reads the log of one Kimi."""

    provider: str
    reader: Callable[[UsageSource, int, int], UsageBatch]
    scope: str
    session_id: str
    head: bytes
    """The line that every log begins with."""

    def write(self, path: Path, *lines: bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.head + b"".join(lines))
        return path

    def source(self, path: Path, agent: str | None = None, session: str | None = None) -> UsageSource:
        return UsageSource(
            provider=self.provider, home="/h", scope=self.scope,
            session_id=session or self.session_id, path=str(path), agent=agent,
        )  # fmt: skip

    def read_usage(self, source: UsageSource, since: int) -> UsageBatch:
        return read_source(self.reader, source, since)

    def read(self, tmp_path: Path, *lines: bytes, agent: str | None = None) -> UsageBatch:
        path = self.write(tmp_path / "wire.jsonl", *lines)
        batch = self.read_usage(self.source(path, agent), 0)
        assert batch.next_offset == path.stat().st_size
        return batch

    def read_in_pieces(self, path: Path, content: bytes, cuts: Iterable[int]) -> list[UsageBatch]:
        path.write_bytes(b"")
        batches: list[UsageBatch] = []
        offset = written = 0
        for cut in (*sorted(cuts), len(content)):
            with path.open("ab") as file:
                file.write(content[written:cut])
            written = max(written, cut)
            batches.append(self.read_usage(self.source(path), offset))
            offset = batches[-1].next_offset
        return batches


def billed(*batches: UsageBatch) -> dict[str, UsageEvent]:
    """As the ledger does: equal keys are one event."""
    return {event.key: event for batch in batches for event in batch.events}


def total(*batches: UsageBatch) -> TokenUsage:
    return sum((event.tokens for event in billed(*batches).values()), TokenUsage())


def parts(*batches: UsageBatch) -> tuple[object, ...]:
    return tuple(
        Counter(map(repr, (item for batch in batches for item in getattr(batch, name))))
        for name in ("events", "actions", "unrecorded", "skipped")
    )


class OddLogs:
    """Odd lines and odd files hide nothing. Derive, and say which log, and two lines of usage with 10 tokens in each."""

    log: WireLog
    usage: tuple[bytes, bytes]

    @pytest.mark.parametrize("odd", ODD_LINES.values(), ids=ODD_LINES)
    def test_odd_lines_hide_nothing(self, tmp_path: Path, odd: bytes) -> None:
        first, second = self.usage
        assert total(self.log.read(tmp_path, first, odd, second)).input == 20

    def test_a_link_a_fifo_and_nothing_are_said(self, tmp_path: Path) -> None:
        target = self.log.write(tmp_path / "real", self.usage[0])
        (tmp_path / "link").symlink_to(target)
        os.mkfifo(tmp_path / "fifo")
        for name in ("link", "fifo", "missing"):
            batch = self.log.read_usage(self.log.source(tmp_path / name), 5)
            assert (batch.events, batch.next_offset, len(batch.skipped)) == ([], 5, 1)


class Appends:
    """A log read while it grows gives what one reading gives. Derive, and say which log, and lines of every kind."""

    log: WireLog
    mixed: tuple[bytes, ...]

    def test_any_one_split_gives_the_result_of_one_reading(self, tmp_path: Path) -> None:
        content = b"".join(self.mixed)
        path = tmp_path / "wire.jsonl"
        whole = parts(*self.log.read_in_pieces(path, content, ()))
        ends = [n + 1 for n, byte in enumerate(content) if byte == 10]
        for cut in sorted({*ends, *(end - 1 for end in ends), *range(0, len(content), 41)}):
            assert parts(*self.log.read_in_pieces(path, content, [cut])) == whole, cut

    # The classes that derive run the same way: only their lines differ.
    @settings(
        max_examples=60,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(data=st.data(), cuts=st.lists(st.floats(0, 1), max_size=6), chunk=st.sampled_from([50, 333, 1 << 20]))
    def test_any_splits_of_any_lines(self, tmp_path: Path, data: st.DataObject, cuts: list[float], chunk: int) -> None:
        content = b"".join(data.draw(st.lists(st.sampled_from(self.mixed), max_size=25), label="lines"))
        path = tmp_path / "wire.jsonl"
        whole = parts(*self.log.read_in_pieces(path, content, ()))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "CHUNK", chunk)
            assert parts(*self.log.read_in_pieces(path, content, [int(cut * len(content)) for cut in cuts])) == whole
