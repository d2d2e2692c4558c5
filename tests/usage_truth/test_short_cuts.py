"""Lines that are known without decoding say what decoding them would have said."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize(
    ("provider", "usage", "place"),
    [(kimi_cli, kimi_cli_usage, ".kimi"), (kimi_code, kimi_code_usage, ".kimi-code")],
    ids=["kimi-cli", "kimi-code"],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_cut_finds_what_decoding_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: ModuleType, usage: ModuleType, place: str, seed: int
) -> None:
    World(tmp_path, seed).write()
    home = Home(provider=provider.name, path=str(tmp_path / place), is_default=True, origin="default")
    sources: list[UsageSource] = list(provider.usage.list_sources(home, None))
    decoder = _Counting(usage.LOG.decoder)

    def read_all() -> list[UsageBatch]:
        return [read_source(usage.read_usage, source, 0) for source in sources]

    monkeypatch.setattr(usage, "LOG", usage.LOG._replace(decoder=decoder))
    short, decoded = read_all(), decoder.count
    monkeypatch.setattr(usage, "LOG", usage.LOG._replace(line=NO_LINE))
    assert read_all() == short
    assert sum(len(batch.events) for batch in short) > 20
    assert decoded < (decoder.count - decoded) * 0.7, "the short cut is hardly ever taken"


class _Counting:
    """A decoder that counts what it is given."""

    def __init__(self, decoder: ForeignDecoder[Any]) -> None:
        self._decoder = decoder
        self.count = 0

    def decode(self, data: bytes) -> Any:
        self.count += 1
        return self._decoder.decode(data)
