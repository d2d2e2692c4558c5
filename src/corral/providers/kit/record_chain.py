"""Records that name the one before them (`uuid`, `parentUuid`), followed back from the last as a resume does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from corral.providers.kit.foreign_json import ForeignDecoder

T = TypeVar("T")


class Chain(Struct, frozen=True):
    """What is reached from the last record."""

    reachable: int
    gap: bool
    """It ends at a record that is missing, not at the first one."""


def follow_back(links: Iterable[tuple[str, str | None]]) -> Chain:
    """Records and their parents, in the order of the file. Of two with one id the first counts."""
    parents: dict[str, str | None] = {}
    last: str | None = None
    for last, parent in links:
        parents.setdefault(last, parent)
    reached: set[str] = set()
    while last and last not in reached:
        if last not in parents:
            return Chain(len(reached), gap=True)
        reached.add(last)
        last = parents[last]
    return Chain(len(reached), gap=False)


def split_line(data: bytes, decoder: ForeignDecoder[T], shape: type[T]) -> Iterator[T]:
    """The records on a line, also where two writers left `{…}{…}`; what follows damage is given up."""
    record = decoder.decode(data)
    if record is not None:
        yield record
        return
    import json

    text, position = data.decode("utf-8", "replace"), 0
    while (position := text.find("{", position)) >= 0:
        try:
            value, position = json.JSONDecoder().raw_decode(text, position)
            yield msgspec.convert(value, shape)
        except msgspec.ValidationError:
            continue
        except (ValueError, RecursionError):
            return
