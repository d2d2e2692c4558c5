"""What one reading of one file gave, as plain rows that are ready to be stored: ranked, priced, known by a digest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from corral.model.usage import TokenUsage, UsageBatch, UsageSource

REPORTED, PLAIN, SHARED, STAND_IN = 0, 1, 80, 90
"""Ranks: of several sessions that hold one event, the one with the least owns it. REPORTED is a session that an agent
had reported before the event, so that it is no copy; PLAIN one of which nobody says whether it is a fork; then come
forks by the provider's word, a fork of a fork after its parent (where copies name their origin, with what they copied,
and with nothing else); SHARED and STAND_IN are what a file of the whole home says, of any session and of one whose own
log was never read. Of equal ranks the session's name decides: that is ambiguous.
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
    deferred: int = 0
    """1 while nothing of it was read: no question needed a file as old as this."""


_UNREAD_NS = -1
"""The time of a file that could not be read: as none has it, it is tried again with every scan."""


def to_unread(before: SourceState | None) -> SourceState:
    """How a file that can't be read is kept, with what was read of it before."""
    return (before or SourceState(0, 0, 0, 0, 0, 0, 0))._replace(mtime_ns=_UNREAD_NS, deferred=0)


def is_read(state: tuple[int, ...]) -> bool:
    return SourceState(*state).mtime_ns != _UNREAD_NS and not SourceState(*state).deferred


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
    former: tuple[UsageSource, UsageBatch] | None = None
    """What the file was taken for and to say, before more was known of whose it is."""
    basis: str | None = None
    """Whose file it was by the ledger, as JSON, when it was decided to read it; empty: not known. None: no matter."""


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
    actions: list[Row]
    """session, key, rank, at, kind, name."""
    unrecorded: list[Row]
    """session, key, rank, at, kind."""
    skips: list[tuple[int, str]]
    wrong: list[tuple[str, int, int]]
    """session, key and least rank of what the ledger has by this file, if that is to be forgotten first."""
    basis: str | None


def storable(path: str) -> str:
    """A path as text that a database takes: bytes that are no UTF-8 are written out."""
    if path.isascii():
        return path
    try:
        return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # half of a pair, out of a foreign JSON: no byte of a path
        return path.encode(errors="backslashreplace").decode()


try:
    from _blake2 import blake2b  # hashlib would load all of OpenSSL before it gives the same
except ImportError:
    from hashlib import blake2b

MOST_TOKENS = 1 << 44
"""No request has more: beyond it, sums of many would not fit where they are kept."""

_MOST_FORKS = 60
_NO_PRICE: Price = (None, None, 0)


def make_rows(reading: Reading, pricer: Pricer | None) -> Rows:
    """Everything of a reading that is stored, priced."""
    source, batch = reading.source, reading.batch
    rank = _Ranker(source, reading.begun_at)
    provider = source.provider
    skips = [(skip.offset, skip.reason) for skip in batch.skipped]
    events: list[Row] = []
    for event, (model, model_source) in zip(batch.events, reading.models, strict=True):
        tokens, at = event.tokens, event.at
        if tokens.total > MOST_TOKENS:
            skips.append((event.offset, "a token count that no request can have"))
            continue
        price = pricer.price(model, model_source, at, tokens) if pricer else _NO_PRICE
        events.append(
            (
                event.session_id,
                digest(provider, event.key),
                rank.always if rank.always is not None else rank.find(at, event.session_id, stands_in=event.stands_in),
                at,
                event.agent,
                model,
                model_source,
                tokens.input,
                tokens.cache_read,
                tokens.cache_write,
                tokens.cache_write_1h,
                tokens.output,
                tokens.reasoning,
                event.branch,
                *price,
            )
        )
    return Rows(
        provider=provider,
        home=storable(source.home),
        scope=storable(source.scope),
        session_id=source.session_id,
        work_dir=None if source.work_dir is None else storable(source.work_dir),
        path=storable(source.path),
        described=describe(source),
        state=tuple(reading.state),
        since=reading.since,
        events=events,
        actions=[
            (d.session_id, digest(provider, d.key), rank.find(d.at, d.session_id), d.at, d.kind, d.name)
            for d in batch.actions
        ],
        unrecorded=[
            (u.session_id, digest(provider, u.key), rank.find(u.at, u.session_id, stands_in=True), u.at, u.kind)
            for u in batch.unrecorded
        ],
        skips=skips,
        wrong=_list_wrong(reading),
        basis=reading.basis,
    )


def _list_wrong(reading: Reading) -> list[tuple[str, int, int]]:
    """A session's own whatever its rank is. What the file has copied may be known by another log too, of a lesser rank:
    that is not from this one."""
    if reading.former is None:
        return []
    source, batch = reading.former
    rank = _Ranker(source, None)
    found = {(one.session_id, one.key) for some in (batch.events, batch.actions, batch.unrecorded) for one in some}
    return [
        (session_id, digest(source.provider, key), REPORTED if session_id == source.session_id else rank.of_copies)
        for session_id, key in sorted(found)
    ]


def digest(provider: str, key: str) -> int:
    """What the ledger knows an event by: equal for equal ones, and 64 bits are enough that no others are."""
    return int.from_bytes(blake2b(f"{provider}:{key}".encode(), digest_size=8).digest(), "little", signed=True)


def rank_forks(count: int) -> int:
    """The rank of what a session has copied to which so many forks lead."""
    return PLAIN + min(count, _MOST_FORKS)


class _Ranker:
    """The ranks of what one file holds."""

    def __init__(self, source: UsageSource, begun_at: float | None) -> None:
        self._session_id = source.session_id
        self._begun_at = begun_at
        forks = rank_forks(source.generation or int(source.parent_id is not None))
        self.of_copies = forks if source.session_id else SHARED
        # Where there are no families a copy names its origin: what names none is no copy.
        self._own = forks if source.family else PLAIN
        is_plain = source.session_id and self._own == forks and begun_at is None
        self.always = forks if is_plain else None
        """The rank of everything, if it depends on nothing else."""

    def find(self, at: float, session_id: str, *, stands_in: bool = False) -> int:
        if not self._session_id:
            return STAND_IN if stands_in else SHARED
        if self._begun_at is not None and self._begun_at <= at:
            return REPORTED
        return self._own if session_id == self._session_id else self.of_copies


def describe(source: UsageSource) -> str | None:
    """Whose file it is, as JSON; None where its path can't be written so."""
    try:
        return msgspec.json.encode(source).decode()
    except UnicodeEncodeError:
        return None  # it is listed again when it grows
