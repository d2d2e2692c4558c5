"""Readings as rows that are ready to be stored: ranked, priced, and known by a digest."""

from __future__ import annotations

import msgspec

from corral.model.usage import UsageBatch, UsageSource
from corral.store.ledger_rows import PLAIN, SHARED, STAND_IN, TOLD, Price, Pricer, Reading, Row, Rows, storable

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
    rank = _Ranker(reading)
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
                rank.always if rank.always is not None else rank.find(at, stands_in=event.stands_in),
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
        described=_describe(source),
        state=tuple(reading.state),
        since=reading.since,
        events=events,
        deeds=[(d.session_id, digest(provider, d.key), rank.find(d.at), d.at, d.kind, d.name) for d in batch.deeds],
        unrecorded=[
            (u.session_id, digest(provider, u.key), rank.find(u.at, stands_in=True), u.at, u.kind)
            for u in batch.unrecorded
        ],
        skips=skips,
        wrong=_list_keys(provider, reading.wrong) if reading.wrong is not None else [],
    )


def _list_keys(provider: str, wrong: UsageBatch) -> list[int]:
    keys = {one.key for some in (wrong.events, wrong.deeds, wrong.unrecorded) for one in some}
    return [digest(provider, key) for key in sorted(keys)]


def digest(provider: str, key: str) -> int:
    """What the ledger knows an event by: equal for equal ones, and 64 bits are enough that no others are."""
    return int.from_bytes(blake2b(f"{provider}:{key}".encode(), digest_size=8).digest(), "little", signed=True)


class _Ranker:
    """The ranks of what one file holds."""

    def __init__(self, reading: Reading) -> None:
        source = reading.source
        self._begun_at = reading.begun_at
        self._shared = not source.session_id
        self._rank = PLAIN + min(source.generation or int(source.parent_id is not None), _MOST_FORKS)
        self.always = None if self._shared or self._begun_at is not None else self._rank
        """The rank of everything, if it depends on nothing else."""

    def find(self, at: float, *, stands_in: bool = False) -> int:
        if self._shared:
            return STAND_IN if stands_in else SHARED
        return TOLD if self._begun_at is not None and self._begun_at <= at else self._rank


def _describe(source: UsageSource) -> str | None:
    try:
        return msgspec.json.encode(source).decode()
    except UnicodeEncodeError:
        return None  # it is listed anew when it grows
