"""Single values of foreign records: a text deep inside one, and a time written as ISO 8601."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from corral.providers.kit.foreign_json import ForeignDecoder


class TextAt:
    """The text at a path of names: `TextAt("payload", "title").find(line)`. Nothing beside it is decoded."""

    def __init__(self, *path: str) -> None:
        shape: Any = str
        for name in reversed(path):
            shape = msgspec.defstruct("Nested", [("inner", shape, msgspec.field(name=name))])
        self._decoder: ForeignDecoder[Any] = ForeignDecoder(shape)
        self._depth = len(path)

    def find(self, data: bytes) -> str | None:
        """None when there is no text at that place."""
        found: Any = self._decoder.decode(data)
        if found is not None:
            for _ in range(self._depth):
                found = found.inner
        return found


def parse_moment(text: str | None) -> float | None:
    """An ISO time in epoch seconds; None for what is none, or does not name its zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
