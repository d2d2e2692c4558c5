"""What views ask the ledger, each question one function: opened, brought up to date where that is meant, answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from corral.errors import CorralError
from corral.machine import places
from corral.machine.local_zone import LocalZone
from corral.model.usage_report import LossRow, UsageQuery, UsageReport, UsageRow
from corral.usage.changes import may_have_problem
from corral.usage.checksums import Damaged
from corral.usage.deferred import is_any_needed
from corral.usage.gaps import list_losses, say_loss
from corral.usage.ledger import Ledger
from corral.usage.ledger_access import ask_ledger, naming_trouble
from corral.usage.report import Trend, list_rows, name_untraced, report_usage
from corral.usage.update import update_ledger

if TYPE_CHECKING:
    from corral.usage.explain import UsageExplanation
    from corral.usage.read import OnProgress

_PIECE_S = 0.1
"""How long logs that wait are read after an answer: nobody should feel it."""


class Spent(NamedTuple):
    """What was spent, for one who shows it all the time."""

    midnight: datetime
    """When today began."""
    sessions: tuple[UsageRow, ...]
    today: tuple[UsageRow, ...]
    """By session, as the others."""
    days: tuple[UsageRow, ...]
    losses: tuple[str, ...]
    """Each in a sentence."""


def report_fresh(
    query: UsageQuery,
    *,
    on_progress: OnProgress | None,
    on_doubt: Callable[[], None],
    untraced: bool,
    trend_at: float | None,
) -> tuple[UsageReport, Trend | None]:
    """All that was appended to logs is read before; see the door."""

    def ask(ledger: Ledger) -> tuple[UsageReport, Trend | None]:
        update_ledger(ledger, on_progress, since=query.since)
        if may_have_problem(ledger):
            on_doubt()
        asked = _narrow(ledger, query) if query.session is not None else query
        report = report_usage(ledger, asked)
        if untraced:
            report = name_untraced(ledger, asked, report)
        return report, _find_trend(ledger, asked, trend_at) if trend_at is not None else None

    return ask_ledger(ask, or_memory=True, on_progress=on_progress)


def report_stored(query: UsageQuery) -> UsageReport:
    """What the ledger says, as far as it was brought up to date. Raises CorralError when it can't be used."""
    return ask_ledger(lambda ledger: name_untraced(ledger, query, report_usage(ledger, query)))


def read_on() -> None:
    """See the door."""

    def ask(ledger: Ledger) -> None:
        from corral.usage.scan import read_waiting

        if is_any_needed(ledger, None):
            read_waiting(ledger, _PIECE_S)

    with suppress(CorralError):  # the answer was given: whoever asks next is told
        ask_ledger(ask)


def explain_session(name: str, on_progress: OnProgress | None) -> UsageExplanation:
    from corral.usage.explain import explain_usage

    def ask(ledger: Ledger) -> UsageExplanation:
        update_ledger(ledger, on_progress)
        return explain_usage(ledger, name)

    return ask_ledger(ask, or_memory=True)


def bring_up_to_date(on_progress: OnProgress | None) -> str | None:
    """Returns what is to be said of the ledger itself."""

    def ask(ledger: Ledger) -> str | None:
        update_ledger(ledger, on_progress)
        return ledger.notice

    return ask_ledger(ask)


def acknowledge_losses() -> tuple[LossRow, ...]:
    """Say them no more; which they were."""

    def ask(ledger: Ledger) -> tuple[LossRow, ...]:
        losses = list_losses(ledger)
        if losses:
            ledger.acknowledge_losses()
        return losses

    return ask_ledger(ask)


def sum_spending(day_count: int) -> Spent:
    """By session, by session today, and by day, after all that is new was read."""
    from corral.usage.glance import find_begin

    zone = LocalZone()  # not today's offset: the days before a change of the clocks have another
    midnight = datetime.fromtimestamp(find_begin("day", time.time(), zone), zone)
    since = (midnight - timedelta(days=day_count - 1)).timestamp()

    def ask(ledger: Ledger) -> Spent:
        update_ledger(ledger)
        by = ("session",)  # as provider:id
        return Spent(
            midnight,
            list_rows(ledger, UsageQuery(by=by, zone=zone)),
            list_rows(ledger, UsageQuery(by=by, zone=zone, since=midnight.timestamp())),
            list_rows(ledger, UsageQuery(by=("day",), zone=zone, since=since)),
            tuple(say_loss(loss) for loss in list_losses(ledger)),
        )

    return ask_ledger(ask)


def _narrow(ledger: Ledger, query: UsageQuery) -> UsageQuery:
    from corral.usage.session import narrow_to_session

    return narrow_to_session(ledger, query)


def _find_trend(ledger: Ledger, query: UsageQuery, now: float) -> Trend | None:
    from corral.usage.report import find_trend

    return find_trend(ledger, query, now)


def rebuild_ledger(on_progress: OnProgress | None) -> tuple[str, tuple[LossRow, ...]]:
    """Make it again from the logs, with all that only it knows: what was done, and what is lost. Raises CorralError."""
    from corral.usage.rebuild import make_again

    with naming_trouble():
        try:
            found = Ledger(places.state_dir())
            if found.read_only:
                raise CorralError(found.notice or "the ledger is not ours to write")
            seen, why = found.found, "asked for"
            found.close()
        except Damaged as damaged:
            seen, why = damaged.seen, str(damaged)
        ledger = make_again(places.state_dir(), why, seen, on_progress=on_progress, asked_for=why == "asked for")
        try:
            return ledger.notice or "", list_losses(ledger)
        finally:
            ledger.close()
