"""Text as agents log it, already escaped for JSON: code, prose and tool output cut from one seeded pool."""

from __future__ import annotations

import json
import random
from bisect import bisect_left

_WORDS = [
    "session",
    "request",
    "provider",
    "ledger",
    "token",
    "model",
    "price",
    "branch",
    "return",
    "import",
    "class",
    "error",
    "result",
    "state",
    "value",
    "index",
    "path",
    "file",
    "read",
    "write",
    "open",
    "close",
    "check",
    "build",
    "test",
    "run",
    "find",
    "list",
    "map",
    "key",
    "row",
    "column",
    "table",
    "query",
    "cache",
    "event",
    "turn",
    "step",
    "tool",
    "call",
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "is",
    "was",
    "not",
    "with",
    "for",
    "from",
    "by",
    "on",
    "at",
    "it",
    "this",
    "that",
    "first",
    "last",
    "next",
    "new",
    "old",
    "same",
    "other",
    "each",
    "every",
]
_POOL_BYTES = 6 << 20


class Text:
    """Pieces of any length, each valid inside a JSON string."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        parts: list[str] = []
        self._cuts = [0]
        size = 0
        while size < _POOL_BYTES:
            line = " " * chance.choice((0, 0, 4, 8)) + " ".join(chance.choices(_WORDS, k=chance.randint(3, 14)))
            line += chance.choice((".", ":", ' = "x"', "()", ' {"token": 1}', " → ok", "\tdone"))
            part = json.dumps(line + "\n", ensure_ascii=False)[1:-1]
            parts.append(part)
            size += len(part)
            self._cuts.append(size)
        self._pool = "".join(parts)
        self._chance = chance

    def cut(self, size: int) -> str:
        """About that many characters; whole lines."""
        start = self._chance.randrange(len(self._cuts) - 1)
        begin = self._cuts[start]
        stop = self._cuts[min(bisect_left(self._cuts, begin + size), len(self._cuts) - 1)]
        piece = self._pool[begin:stop]
        while len(piece) < size:  # the end of the pool: go on at its start
            piece += self._pool[: self._cuts[min(bisect_left(self._cuts, size - len(piece)), len(self._cuts) - 1)]]
        return piece
