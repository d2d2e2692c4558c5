"""What one reading of one file gave, as plain rows: they can cross a pipe, and be stored without a second look."""

from __future__ import annotations

from collections.abc import Sequence

from corral.light_typing import NamedTuple, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from corral.model.usage import TokenUsage, UsageBatch, UsageSource

TOLD, PLAIN, SHARED, STAND_IN = 0, 1, 80, 90
"""Ranks: of several sessions that hold one event, the one with the least owns it. TOLD is a session that an agent had
reported before the event, so that it is no copy; PLAIN one of which nobody says whether it is a fork; then come forks
by the provider's word, a fork of a fork after its parent; SHARED and STAND_IN are what a file of the whole home says,
of any session and of one whose own log was never read. Of equal ranks the session's name decides: that is ambiguous.
"""

Row: TypeAlias = "tuple[Any, ...]"
Origin: TypeAlias = "tuple[str, str, str, int]"
"""As what a model is listed, by whom, of which day (empty: one's own price), and 1 if that is assumed."""
Price: TypeAlias = tuple[int | None, int | None, int]
"""Whole dollars, picodollars, and 1 if a model or rate was assumed. None, None: no known price."""


class Pricer(Protocol):
    """Prices events. Equal stamps give equal prices."""

    stamp: str

    def price(self, model: str | None, model_source: str, at: float, tokens: TokenUsage) -> Price: ...
    def list_origins(self, model: str, first: float, last: float) -> Sequence[Origin]: ...


class SourceState(NamedTuple):
    """A file as it was when it was last read."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    head: int
    head_size: int
    offset: int
    tail: int = 0


_UNREAD_NS = -1
"""The time of a file that could not be read: as none has it, it is tried again whenever all is looked at."""


def to_unread(before: SourceState | None) -> SourceState:
    """How a file that can't be read is kept, with what was read of it before."""
    return (before or SourceState(0, 0, 0, 0, 0, 0, 0, 0))._replace(mtime_ns=_UNREAD_NS)


def is_read(state: tuple[int, ...]) -> bool:
    return SourceState(*state).mtime_ns != _UNREAD_NS


class Reading(NamedTuple):
    """What one reading of one file gave, to be stored in one piece with how far it came."""

    source: UsageSource
    state: SourceState
    batch: UsageBatch
    models: Sequence[tuple[str | None, str]]
    """For each event of the batch: the model and how it is known."""
    since: int = 0
    """Where the reading began."""
    begun_at: float | None = None
    """When an agent first reported the session, in epoch seconds."""
    wrong: UsageBatch | None = None
    """What the file was taken to say before more was known of whose it is."""


class Rows(NamedTuple):
    """A reading as plain values. Rows begin with their session's id, which is not stored as such."""

    provider: str
    home: str
    scope: str
    session_id: str
    """The session whose file it is; empty for a file of the whole home."""
    work_dir: str | None
    path: str
    described: str | None
    state: tuple[int, ...]
    since: int
    events: list[Row]
    """session, key, rank, at, agent, model, model_source, six counts of tokens, branch, dollars, picos, assumed."""
    deeds: list[Row]
    """session, key, rank, at, kind, name."""
    unrecorded: list[Row]
    """session, key, rank, at, kind."""
    skips: list[tuple[int, str]]
    wrong: list[int]
    """Keys by which the ledger knows what this file says, if that is to be forgotten first."""


def storable(path: str) -> str:
    """A path as text that a database takes: bytes that are no UTF-8 are written out."""
    if path.isascii():
        return path
    try:
        return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # half of a pair, out of a foreign JSON: no byte of a path
        return path.encode(errors="backslashreplace").decode()
