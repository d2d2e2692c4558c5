"""What was spent: one event per request that a provider recorded, tokens by kind, and totals that add."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class TokenUsage(Struct, frozen=True):
    """Tokens of one request or of many. The kinds are disjoint: their sum is all that was billed."""

    input: int = 0
    """Input that no cache served or took."""
    cache_read: int = 0
    cache_write: int = 0
    """Written to a cache for five minutes, or for a time that the provider does not name."""
    cache_write_1h: int = 0
    output: int = 0
    """Output that is not reasoning."""
    reasoning: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cache_write_1h + other.cache_write_1h,
            self.output + other.output,
            self.reasoning + other.reasoning,
        )

    @property
    def total(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h + self.output + self.reasoning


class UsageSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One append-only file in which a provider records usage, or one table of rows in a database of its own."""

    provider: str
    home: str
    scope: str
    session_id: str
    """The session whose file it is; empty for a file of the whole home."""
    path: str
    agent: str | None = None
    """The sub-agent whose file it is."""
    work_dir: str | None = None
    parent_id: str | None = None
    """The session it was forked from, by the provider's own word."""
    generation: int = 0
    """How many forks lead to it from the first session, as far as known: a fork of a fork is 2."""
    family: str | None = None
    """The first session of those among which equal events are copies, as far as known; None: among all there are."""
    lineage: tuple[str, ...] = ()
    """Where there are families: the sessions that it comes from, the nearest first, as far as they are named."""
    certainty: int = 0
    """How well the family is known: 0 by the names there are, 1 by logs that begin alike as well, 2 to its first."""
    is_table: bool = False
    """Its provider reads it by a cursor of its own instead of an offset: a whole number, 0 at the first reading."""
    orphans: tuple[str, ...] = ()
    """Of a file of the whole home: sessions without a log of their own, of which forks hold copies."""


class UsageEvent(Struct, frozen=True, kw_only=True, gc=False):
    """One request that was billed. Equal `key`s are one event, wherever they are found."""

    key: str
    """The provider's own event id where it has one, made unique as that provider's rules demand, with its family."""
    at: float
    """Epoch seconds."""
    session_id: str
    agent: str | None
    model: str | None
    """As recorded; None when the provider does not record it."""
    tokens: TokenUsage
    branch: str | None = None
    offset: int = 0
    """Where its line begins in the file, in bytes; only to explain, never stored."""
    stands_in: bool = False
    """Known from a file of the whole home: it counts only while the session's own log was never read."""


class Action(Struct, frozen=True, kw_only=True, gc=False):
    """Something counted beside tokens: a turn, or a call of a tool. Never its text."""

    key: str
    at: float
    session_id: str
    kind: str
    """"turn" or "tool"."""
    name: str = ""
    """Of a tool: its name; of a shell command, after a space, the program it runs."""
    offset: int = 0


class Unrecorded(Struct, frozen=True, kw_only=True, gc=False):
    """A request that left a trace and no tokens: compaction, a killed turn."""

    key: str
    at: float
    session_id: str
    kind: str
    offset: int = 0
    """Where the line begins by which it was noticed."""


class UsageSkip(Struct, frozen=True, kw_only=True):
    """A line that could not be read or counted, and why."""

    path: str
    offset: int
    reason: str


class UsageBatch(Struct, frozen=True, kw_only=True):
    """What one reading of one file from one offset gave."""

    events: list[UsageEvent]
    actions: list[Action]
    unrecorded: list[Unrecorded]
    skipped: list[UsageSkip]
    next_offset: int
    """Where the next reading begins: after the last whole line; of a table, the cursor."""


class ModelSource(StrEnum):
    """How the model of an event is known. All but the first are assumed, and said to be."""

    RECORDED = "recorded"
    JOURNAL = "journal"
    CONFIG = "config"
    UNKNOWN = "unknown"
