"""What a report on usage is made of."""

from __future__ import annotations

from datetime import datetime, tzinfo
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from corral.model.budget import BudgetReport
from corral.model.usage import TokenUsage

TIME_KEYS = ("day", "week", "month", "hour")
KEYS = (*TIME_KEYS, "session", "project", "model", "provider", "branch", "tool")
"""What usage can be grouped by."""


class UsageQuery(NamedTuple):
    """What is asked. Times are epoch seconds."""

    zone: tzinfo
    by: tuple[str, ...] = ("day",)
    since: float | None = None
    until: float | None = None
    provider: str | None = None
    model: str | None = None
    project: str | None = None
    session: str | None = None


class CostReport(Struct, frozen=True):
    """Money of many events. `amount` is what could be priced, null if nothing could."""

    amount: Decimal | None
    currency: str
    unpriced_events: int
    assumed_events: int
    """Priced by a model or a rate that was assumed."""


class UsageRow(Struct, frozen=True):
    key: dict[str, str | None]
    events: int
    tokens: TokenUsage
    cost: CostReport
    calls: int | None = None
    """By tool: how often it was called; tokens are not known per tool."""
    turns: int | None = None
    """How often the person asked something; null where that is not known by these keys."""


class UnrecordedRow(Struct, frozen=True):
    """Calls that were made and whose tokens were not recorded; `events` is null where they leave no trace."""

    provider: str
    kind: str
    events: int | None


UNREAD = "can't be read"
"""How the reason begins where a whole file was skipped."""


class SkipRow(Struct, frozen=True):
    path: str
    offset: int
    reason: str


class PriceOrigin(Struct, frozen=True):
    """Where the price of a model comes from."""

    model: str
    listed_as: str
    """As the source calls it."""
    source: str
    dated: str | None
    """The day of which the source is; null for one's own prices."""
    assumed: bool
    """The model that it means is assumed."""


class LossRow(Struct, frozen=True):
    """What was counted once and could not be saved when the ledger was found damaged. Times are epoch seconds."""

    noticed_at: float
    what: str
    events: int | None
    """At least so many; null: not known, perhaps none."""
    since: float | None
    until: float | None
    """Of which time it was; null where that is not known."""

    def say(self) -> str:
        """In a sentence, with the period that it concerns, in local days."""
        count, verb = ("an unknown number of", "may be") if self.events is None else (f"{self.events:,}", "are")
        until = None if self.until is None else _day(self.until)
        if self.since is None:
            period = "" if until is None else f" from before {until}"
        else:
            since = _day(self.since)
            period = f" of {since}" if until in (None, since) else f" from {since} to {until}"
        return (
            f"{count} {self.what}{period} {verb} missing: they could not be saved when the ledger was found damaged on"
            f" {_day(self.noticed_at)} (corral usage --acknowledge ends this note)"
        )


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).date().isoformat()


class UnreadLogs(Struct, frozen=True):
    """Logs that were not read yet, as no question needed them."""

    files: int
    bytes: int
    until: float
    """When the last of them was last modified, in epoch seconds: what they hold is older."""


class UsageReport(Struct, frozen=True):
    """`corral usage --json`."""

    schema: int
    rows: tuple[UsageRow, ...]
    total: UsageRow
    unrecorded: tuple[UnrecordedRow, ...]
    skipped: tuple[SkipRow, ...]
    notice: str | None = None
    budget: BudgetReport | None = None
    prices: tuple[PriceOrigin, ...] = ()
    """Of the models that were priced in it."""
    notes: tuple[str, ...] = ()
    """Sentences about what else is in this report, or should be."""
    losses: tuple[LossRow, ...] = ()
    """What is missing from every report until it is acknowledged; `notes` says the same in words."""
    unread: UnreadLogs | None = None
    """Null where everything was read; `notes` says whether it could be part of this report."""
