"""What one reading of one file gave, as plain rows: they can cross a pipe, and be stored without a second look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from corral.model.usage import TokenUsage, UsageBatch, UsageSource

MOST_TOKENS = 1 << 44
"""No request has more: beyond it, sums of many would not fit where they are kept."""

Row: TypeAlias = tuple[Any, ...]
Price: TypeAlias = tuple[int | None, int | None, int]
"""Whole dollars, picodollars, and 1 if a model or rate was assumed. None, None: no known price."""


class Pricer(Protocol):
    """Prices events. Equal stamps give equal prices."""

    stamp: str

    def price(self, model: str | None, model_source: str, at: float, tokens: TokenUsage) -> Price: ...


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


def make_rows(reading: Reading, pricer: Pricer | None) -> Rows:
    """Everything of a reading that is stored, priced."""
    source, batch = reading.source, reading.batch
    owner = _Owner(reading)
    skips = [(skip.offset, skip.reason) for skip in batch.skipped]
    events: list[Row] = []
    for event, (model, model_source) in zip(batch.events, reading.models, strict=True):
        tokens, at = event.tokens, event.at
        if tokens.total > MOST_TOKENS:
            skips.append((event.offset, "a token count that no request can have"))
            continue
        dollars, picos, assumed = pricer.price(model, model_source, at, tokens) if pricer else (None, None, 0)
        events.append(
            (
                event.session_id,
                event.key,
                owner.rank(event.session_id, at, stands_in=event.stands_in),
                at,
                event.agent,
                model,
                str(model_source),
                tokens.input,
                tokens.cache_read,
                tokens.cache_write,
                tokens.cache_write_1h,
                tokens.output,
                tokens.reasoning,
                event.branch,
                dollars,
                picos,
                assumed,
            )
        )
    return Rows(
        provider=source.provider,
        home=storable(source.home),
        scope=storable(source.scope),
        session_id=source.session_id,
        work_dir=None if source.work_dir is None else storable(source.work_dir),
        path=storable(source.path),
        described=_describe(source),
        state=tuple(reading.state),
        since=reading.since,
        events=events,
        deeds=[(d.session_id, d.key, owner.rank(d.session_id, d.at), d.at, d.kind, d.name) for d in batch.deeds],
        unrecorded=[
            (u.session_id, u.key, owner.rank(u.session_id, u.at, stands_in=True), u.at, u.kind)
            for u in batch.unrecorded
        ],
        skips=skips,
    )


SHARED = "80"
STAND_IN = "90"
"""They begin the rank of what a file of the whole home says: of any session; of one whose own log was never read."""


class _Owner:
    """Of several sessions that hold one event, the one with the least rank owns it.

    A rank begins with two digits: 00 is a session that an agent had reported before the event, so that it is no copy;
    01 one of which nobody says whether it is a fork; then forks by the provider's word, a fork of a fork after its
    parent; 80 and 90 what a file of the whole home says. Among equals the least id decides: then it is ambiguous.
    """

    def __init__(self, reading: Reading) -> None:
        source = reading.source
        self._begun_at = reading.begun_at
        self._word = f"{min(source.generation or int(source.parent_id is not None), 60) + 1:02}"
        self._shared = not source.session_id
        self._scope = source.scope

    def rank(self, session_id: str, at: float, *, stands_in: bool = False) -> str:
        word = self._word
        if self._shared:
            word = STAND_IN if stands_in else SHARED
        elif self._begun_at is not None and self._begun_at <= at:
            word = "00"
        return f"{word}{session_id}/{self._scope}"


def storable(path: str) -> str:
    """A path as text that a database takes: bytes that are no UTF-8 are written out."""
    if path.isascii():
        return path
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _describe(source: UsageSource) -> str | None:
    import msgspec

    try:
        return msgspec.json.encode(source).decode()
    except UnicodeEncodeError:
        return None  # it is listed anew when it grows
