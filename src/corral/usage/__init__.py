"""What sessions cost: the ledger of usage events, its sums, reports and prices.

The door of the room: others call these functions, and each imports what it needs when it is called.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from decimal import Decimal

    from corral.machine.config import Config
    from corral.model.budget import BudgetReport
    from corral.model.prices import ModelRates, PriceTable
    from corral.model.usage_report import LossRow, UsageQuery, UsageReport, UsageRow
    from corral.usage.answers import Spent as Spent
    from corral.usage.check import UsageCheck as UsageCheck
    from corral.usage.explain import FileReport as FileReport
    from corral.usage.explain import LineReport as LineReport
    from corral.usage.explain import ModelReport as ModelReport
    from corral.usage.explain import UsageExplanation as UsageExplanation
    from corral.usage.glance import Glance as Glance
    from corral.usage.glance import TodayUse as TodayUse
    from corral.usage.price_table import ReadTable as ReadTable
    from corral.usage.read import OnProgress
    from corral.usage.read import Progress as Progress
    from corral.usage.report import Trend as Trend
    from corral.usage.sql import Answer as Answer
    from corral.usage.sql import View


# --- reports


def parse_query(
    by: str = "day", since: str | None = None, until: str | None = None, tz: str | None = None
) -> UsageQuery:
    """What is asked, as people type it. Raises CorralError."""
    from corral.usage.query import parse_query

    return parse_query(by, since, until, tz)


def report_fresh(
    query: UsageQuery,
    *,
    on_progress: OnProgress | None,
    on_doubt: Callable[[], None],
    untraced: bool = False,
    trend_at: float | None = None,
) -> tuple[UsageReport, Trend | None]:
    """What was used, after all that is new was read; `on_progress` hears how far that is. Raises CorralError.

    `on_doubt` is called where the configuration may be faulty. With `untraced`, also the kinds of calls that leave no
    trace. With `trend_at` (epoch seconds), also how each row ran over the days up to then.
    """
    from corral.usage.answers import report_fresh

    return report_fresh(query, on_progress=on_progress, on_doubt=on_doubt, untraced=untraced, trend_at=trend_at)


def report_stored(query: UsageQuery) -> UsageReport:
    """What the ledger says, as far as it was brought up to date. Raises CorralError."""
    from corral.usage.answers import report_stored

    return report_stored(query)


def read_on() -> None:
    """To be called after an answer that left logs unread: reads a few of them, for about a tenth of a second."""
    from corral.usage.answers import read_on

    read_on()


def parse_budget(text: str) -> Decimal:
    """An amount of money, without its sign. Raises CorralError."""
    from corral.usage.query import parse_budget

    return parse_budget(text)


def check_budget(report: UsageReport, by: Sequence[str], amount: Decimal) -> BudgetReport:
    """Per period where rows are that alone, else for all that was asked about."""
    from corral.usage.query import check_budget

    return check_budget(report, by, amount)


def explain_session(name: str, on_progress: OnProgress | None) -> UsageExplanation:
    """Which lines of a session were counted, and why. Raises CorralError."""
    from corral.usage.answers import explain_session

    return explain_session(name, on_progress)


def take_glance() -> Glance:
    """What a status line needs: fast, and never an exception."""
    from corral.usage.glance import take_glance

    return take_glance()


def sum_sessions_today(on_progress: OnProgress | None) -> tuple[dict[str, UsageRow], tuple[LossRow, ...]]:
    """What each session used since midnight, by `provider:id`; and what may be missing from it. Raises CorralError."""
    from corral.usage.answers import sum_sessions_today

    return sum_sessions_today(on_progress)


def sum_spending(day_count: int) -> Spent:
    """What each session cost, ever and today, and each of the last days. Raises CorralError, OSError."""
    from corral.usage.answers import sum_spending

    return sum_spending(day_count)


# --- the ledger


def update_ledger(on_progress: OnProgress | None) -> str | None:
    """Read all that is new. Returns a notice about the ledger itself, if there is one. Raises CorralError."""
    from corral.usage.answers import bring_up_to_date

    return bring_up_to_date(on_progress)


def check_usage(on_progress: OnProgress | None) -> UsageCheck:
    """Count the logs again, and list where the ledger differs."""
    from corral.usage.check import check_usage

    return check_usage(on_progress)


def rebuild_ledger(on_progress: OnProgress | None) -> tuple[str, tuple[LossRow, ...]]:
    """Rebuild it from the logs, with all that only it knows: what was done, and what is lost. Raises CorralError."""
    from corral.usage.answers import rebuild_ledger

    return rebuild_ledger(on_progress)


def acknowledge_losses() -> tuple[LossRow, ...]:
    """End the notes about what was lost; returns what that was. Raises CorralError."""
    from corral.usage.answers import acknowledge_losses

    return acknowledge_losses()


def ask_sql(query: str, seconds: float, on_repaired: Callable[[str], None]) -> AbstractContextManager[Answer]:
    """One SELECT over the documented views. Raises CorralError."""
    from corral.usage.sql import ask

    return ask(query, seconds, on_repaired)


def list_views() -> Sequence[View]:
    """The views that a SELECT may name, with their columns."""
    from corral.usage.sql import list_views

    return list_views()


# --- prices


def list_prices(
    config: Config, names: Sequence[str], at: float
) -> tuple[ReadTable, list[tuple[str, ModelRates | None]]]:
    """The table in force, and the rates of these models, or of all that have a price; None: it has none."""
    from corral.usage.price_table import list_prices

    return list_prices(config, names, at)


def refresh_prices() -> tuple[PriceTable, str]:
    """A newer table from an installed genai-prices, and where it is now. Raises CorralError."""
    from corral.usage.price_table import refresh_prices

    return refresh_prices()


def list_unknown_prices(config: Config) -> dict[str, str]:
    """Models that the configuration prices as others that nobody lists."""
    from corral.usage.price_table import TablePricer

    return TablePricer(config).list_unknown() if config.prices else {}
