"""What was really spent: the writers of homes tell it here, and it adds up without any code of corral."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

RATES = {
    "truth-small": ("0.15", "0.015", "0.1875", "0.6"),
    "truth-large": ("3", "0.3", "3.75", "15"),
    "truth-told": ("1.25", "0.125", "1.5", "10"),
}
"""US dollars per million tokens of input, cache read, cache write and output, by model. Others have no price."""
UNPRICED = "truth-free"


class Tokens(NamedTuple):
    """Tokens of one request, by kinds that do not overlap."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0


class Request(NamedTuple):
    """One request as it was billed."""

    provider: str
    session_id: str
    at: float
    model: str | None
    tokens: Tokens
    agent: str | None = None

    @property
    def cost(self) -> Decimal | None:
        rates = RATES.get(self.model or "")
        if rates is None:
            return None
        tokens = self.tokens
        counts = (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output + tokens.reasoning)
        return sum((Decimal(rate) * count for rate, count in zip(rates, counts, strict=True)), Decimal(0)) / 10**6


@dataclass
class Truth:
    """Everything by a name of its own, so that a copy of it is told again without harm."""

    requests: dict[str, Request] = field(default_factory=dict[str, Request])
    turns: set[str] = field(default_factory=set[str])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    """The name of every call."""
    unrecorded: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Provider and kind of every trace."""
    ambiguous: set[str] = field(default_factory=set[str])
    """Requests that several sessions hold without anybody saying which was first."""
    skips: Counter[str] = field(default_factory=Counter[str])
    """How many lines of each file can't be counted."""

    def tokens(self) -> Tokens:
        return Tokens(*(sum(kind) for kind in zip(*(one.tokens for one in self.requests.values()), strict=True)))

    def cost(self) -> Decimal:
        return sum((one.cost for one in self.requests.values() if one.cost is not None), Decimal(0))


class Files:
    """The files of a home in the making, as lists of lines; the order in which they were written is kept."""

    def __init__(self) -> None:
        self.lines: dict[str, list[bytes]] = {}

    def add(self, path: str, *lines: bytes) -> None:
        self.lines.setdefault(path, []).extend(lines)

    def content(self) -> dict[str, bytes]:
        return {path: b"".join(lines) for path, lines in self.lines.items()}

    def write(self, root: Path) -> None:
        for path, data in self.content().items():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)


class Chance(random.Random):
    """Seeded choices, and numbers that never come twice."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._number = 0

    def number(self) -> int:
        self._number += 1
        return self._number

    def uuid(self) -> str:
        digits = f"{self.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"

    def tokens(self) -> Tokens:
        """Now and then none of a kind, and now and then many."""
        some = [self.choice((0, self.randrange(1, 5000), self.randrange(1, 300_000))) for _ in range(3)]
        return Tokens(*some, output=self.randrange(1, 9000))

    def likely(self, share: float) -> bool:
        return self.random() < share


BAD_NUMBERS = (2**64, -1, 1.5, True, "12", float("nan"), 2**70, [1])
"""What can be no count of tokens."""
GARBAGE = b"\0\0\xff no record at all\n"
"""A line that nobody can read, and that does not look like usage."""
ODD_TEXT = (
    "\u2028",
    "\ud800 lone",
    '{"token_usage": {"input_other": 9}}',
    "[" * 300 + "]" * 300,
    "\x00",
    "süß 漢字 🐎",
)
