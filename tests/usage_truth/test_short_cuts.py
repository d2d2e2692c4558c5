"""Lines that are passed over undecoded hold nothing that decoding them would have found, and none is decoded in vain."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from corral.model.key import Home
from corral.model.usage import UsageBatch, UsageSource
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from corral.providers.kimi_cli import usage as kimi_cli_usage
from corral.providers.kimi_code import PROVIDER as kimi_code
from corral.providers.kimi_code import usage as kimi_code_usage
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.usage_files import read_source
from tests.usage_truth.world import World

NO_LINE = re.compile(rb"(?!)")
SEEDS = range(8)


def kind_in_kimi_cli(record: kimi_cli_usage.Record) -> str:
    return record.message.type


def kind_in_kimi_code(record: kimi_code_usage.Record) -> str:
    return record.event.type if record.event else record.type


@pytest.mark.parametrize(
    ("provider", "usage", "place", "kind_of", "kinds"),
    [
        (kimi_cli, kimi_cli_usage, ".kimi", kind_in_kimi_cli, kimi_cli_usage.KINDS),
        (
            kimi_code,
            kimi_code_usage,
            ".kimi-code",
            kind_in_kimi_code,
            {**kimi_code_usage.KINDS, **kimi_code_usage.LOOP_EVENTS},
        ),
    ],
    ids=["kimi-cli", "kimi-code"],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_cut_finds_what_decoding_finds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: ModuleType,
    usage: ModuleType,
    place: str,
    kind_of: Callable[[Any], str],
    kinds: Mapping[str, object],
    seed: int,
) -> None:
    World(tmp_path, seed).write()
    home = Home(provider=provider.name, path=str(tmp_path / place), is_default=True, origin="default")
    sources: list[UsageSource] = list(provider.usage.list_sources(home, None))
    dull = {kind for kind, take in kinds.items() if take is None}
    decoder = usage.LOG.decoder

    def read_all() -> tuple[list[UsageBatch], Counter[str]]:
        counting = _Counting(decoder, kind_of)
        monkeypatch.setattr(usage.LOG, "decoder", counting)
        return [read_source(usage.read_usage, source, 0) for source in sources], counting.kinds

    short, decoded = read_all()
    monkeypatch.setattr(usage.LOG, "dull_line", NO_LINE)
    whole, all_kinds = read_all()
    assert whole == short
    assert sum(len(batch.events) for batch in short) > 20
    assert not decoded.keys() & dull, "a line was decoded in vain"
    assert sum(all_kinds[kind] for kind in dull) > 20, "the short cut is hardly ever taken"


class _Counting:
    """A decoder that counts the records it gives, by kind."""

    def __init__(self, decoder: ForeignDecoder[Any], kind_of: Callable[[Any], str]) -> None:
        self._decoder = decoder
        self._kind_of = kind_of
        self.kinds: Counter[str] = Counter()

    def decode(self, data: bytes) -> Any:
        return self._decoder.decode(data)

    def decode_proper(self, data: memoryview) -> Any:
        record = self._decoder.decode_proper(data)
        self.kinds[self._kind_of(record)] += 1
        return record
