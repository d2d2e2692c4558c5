"""What views ask, each question one function: the ledger is opened, brought up to date where that is meant, and asked.

A damaged ledger is rebuilt, and asked once more.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from corral.errors import CorralError
from corral.machine import places
from corral.machine.local_zone import LocalZone
from corral.model.usage_report import LossRow, UsageQuery, UsageReport, UsageRow
from corral.usage.changes import update_ledger
from corral.usage.checks import Damaged, is_damage
from corral.usage.ledger import CONFIG_PROBLEM, Ledger
from corral.usage.query import find_begin
from corral.usage.report import Trend, find_trend, list_losses, list_rows, name_untraced, report_usage

if TYPE_CHECKING:
    from corral.usage.explain import UsageExplanation
    from corral.usage.read import OnProgress

_T = TypeVar("_T")
_PIECE_S = 0.1
"""How long logs that wait are read after an answer: nobody should feel it."""


def ask_ledger(ask: Callable[[Ledger], _T], *, or_memory: bool = False, on_progress: OnProgress | None = None) -> _T:
    """What `ask` finds in the ledger of this user. Raises CorralError when it can't be used.

    When something in it is not as it was written, the ledger is rebuilt and asked once more: `ask` must bear being
    called again. `on_progress` hears how far that is.
    With `or_memory`, one in memory stands in where nothing can be written: it reads all logs every time.
    """
    with naming_trouble():
        ledger = _open(or_memory, on_progress)
        try:
            return ask(ledger)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # What a newer corral made is its own.
            if not is_damage(error) or ledger.read_only:
                raise
            why = str(error)
        finally:
            ledger.close()
        ledger = repair_ledger(why, ledger.found, unwritable=ledger.unwritable, on_progress=on_progress)
        try:
            return ask(ledger)
        finally:
            ledger.close()


def _open(or_memory: bool, on_progress: OnProgress | None) -> Ledger:
    try:
        try:
            return Ledger(places.state_dir(), aside=True)
        except Damaged as damaged:
            return repair_ledger(str(damaged), damaged.seen, on_progress=on_progress)
    except OSError as error:
        if not or_memory:
            raise
        # A state directory that can't be written must not hide what the logs say.
        return Ledger(places.state_dir(), unwritable=error.strerror or str(error))


def repair_ledger(
    why: str | None,
    seen: os.stat_result | None,
    *,
    unwritable: str | None = None,
    on_progress: OnProgress | None = None,
) -> Ledger:
    """The ledger, rebuilt where something in the file `seen` is not as it was written. Raises as that does."""
    from corral.usage.rebuild import rebuild

    return rebuild(places.state_dir(), why, seen, unwritable=unwritable, on_progress=on_progress)


@contextmanager
def naming_trouble() -> Generator[None]:
    """What goes wrong with its file, as a CorralError."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = "the disk is full" if _is_full(places.state_dir()) else str(error)
        raise CorralError(f"the ledger below {places.state_dir()} can't be used: {reason}") from error


def _is_full(directory: str) -> bool:
    """SQLite calls some writes to a full disk an I/O error."""
    try:
        return os.statvfs(directory).f_bavail == 0
    except OSError:
        return False


# --- questions


class Spent(NamedTuple):
    """What was spent, for whoever shows it all the time."""

    midnight: datetime
    """When today began."""
    sessions: tuple[UsageRow, ...]
    today: tuple[UsageRow, ...]
    """By session, as the others."""
    days: tuple[UsageRow, ...]
    losses: tuple[LossRow, ...]
    """What may be missing from all of it."""


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
        if ledger.read_only or ledger.find_memo(CONFIG_PROBLEM) != b"":
            on_doubt()
        asked = query
        if query.session is not None:
            from corral.usage.explain import narrow_to_session

            asked = narrow_to_session(ledger, query)
        report = report_usage(ledger, asked)
        if untraced:
            report = name_untraced(ledger, asked, report)
        return report, find_trend(ledger, asked, trend_at) if trend_at is not None else None

    return ask_ledger(ask, or_memory=True, on_progress=on_progress)


def report_stored(query: UsageQuery) -> UsageReport:
    return ask_ledger(lambda ledger: name_untraced(ledger, query, report_usage(ledger, query)))


def read_on() -> None:
    def ask(ledger: Ledger) -> None:
        if ledger.needs_deferred(None):
            from corral.usage.scan import read_waiting

            read_waiting(ledger, _PIECE_S)

    with suppress(CorralError):  # the answer was given: the next question says so
        ask_ledger(ask)


def explain_session(name: str, on_progress: OnProgress | None) -> UsageExplanation:
    from corral.usage.explain import explain_usage

    def ask(ledger: Ledger) -> UsageExplanation:
        update_ledger(ledger, on_progress)
        return explain_usage(ledger, name)

    return ask_ledger(ask, or_memory=True)


def bring_up_to_date(on_progress: OnProgress | None) -> str | None:
    def ask(ledger: Ledger) -> str | None:
        update_ledger(ledger, on_progress)
        return ledger.notice

    return ask_ledger(ask)


def sum_spending(day_count: int) -> Spent:
    zone = LocalZone()  # not today's offset: the days before a change of the clocks have another
    midnight = datetime.fromtimestamp(find_begin("day", time.time(), zone), zone)
    since = (midnight - timedelta(days=day_count - 1)).timestamp()

    def ask(ledger: Ledger) -> Spent:
        update_ledger(ledger)
        query = UsageQuery(by=("session",), zone=zone)
        return Spent(
            midnight,
            list_rows(ledger, query),
            list_rows(ledger, query._replace(since=midnight.timestamp())),
            list_rows(ledger, query._replace(by=("day",), since=since)),
            list_losses(ledger),
        )

    return ask_ledger(ask)


def sum_sessions_today(on_progress: OnProgress | None) -> tuple[dict[str, UsageRow], tuple[LossRow, ...]]:
    query = UsageQuery(by=("session",), zone=LocalZone())

    def ask(ledger: Ledger) -> tuple[dict[str, UsageRow], tuple[LossRow, ...]]:
        midnight = find_begin("day", time.time(), query.zone)
        update_ledger(ledger, on_progress, since=midnight)
        rows = list_rows(ledger, query._replace(since=midnight))
        return {row.key["session"] or "": row for row in rows}, list_losses(ledger)

    return ask_ledger(ask, or_memory=True)


def acknowledge_losses() -> tuple[LossRow, ...]:
    def ask(ledger: Ledger) -> tuple[LossRow, ...]:
        losses = list_losses(ledger)
        if losses:
            ledger.acknowledge_losses()
        return losses

    return ask_ledger(ask)


def rebuild_ledger(on_progress: OnProgress | None) -> tuple[str, tuple[LossRow, ...]]:
    with naming_trouble():
        try:
            found = Ledger(places.state_dir())
            if found.read_only:
                raise CorralError(found.notice or "the ledger is not ours to write")
            seen, why = found.found, None
            found.close()
        except Damaged as damaged:
            seen, why = damaged.seen, str(damaged)
        ledger = repair_ledger(why, seen, on_progress=on_progress)
        try:
            return ledger.notice or "", list_losses(ledger)
        finally:
            ledger.close()
