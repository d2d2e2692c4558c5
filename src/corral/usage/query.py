"""Times, keys and amounts as people type them, and whether what was spent is within a budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal

from corral.errors import CorralError
from corral.machine.local_zone import LocalZone
from corral.model.budget import BudgetPeriod, BudgetReport
from corral.model.usage_report import KEYS, TIME_KEYS, CostReport, UsageQuery, UsageReport

_LEAST_BUDGET, _MOST_BUDGET = Decimal("0.000001"), Decimal(10) ** 15
_ALL_KEYS = "keys are " + ", ".join(KEYS)


def parse_query(by: str, since: str | None, until: str | None, tz: str | None) -> UsageQuery:
    """What is asked, as people type it. Raises CorralError."""
    zone, now = find_zone(tz), time.time()
    keys = parse_keys(by)
    return UsageQuery(by=keys, since=parse_time(since, zone, now), until=parse_time(until, zone, now), zone=zone)


def parse_keys(text: str) -> tuple[str, ...]:
    """What to group by. Raises CorralError, with the key that may be meant."""
    keys = tuple(part.strip().lower() for part in text.split(","))
    problem = hint = None
    unknown = [key for key in keys if key not in KEYS]
    if unknown and not any(keys):
        problem = "--by needs a key"
    elif unknown:
        problem = f"can't group by {unknown[0]!r}"
        meant = _guess(unknown[0])
        hint = (f"did you mean {meant!r}? " if meant else "") + _ALL_KEYS
    elif len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        problem, hint = f"can't group by {twice!r} twice", "each key once"
    elif "tool" in keys and len(keys) > 1:
        problem = "can't group by 'tool' and something else: tokens are not known per tool"
        hint = "corral usage --by tool counts calls; filters narrow it down"
    if problem:
        raise CorralError(problem, hint=hint or _ALL_KEYS, exit_code=2)
    return keys


def _guess(word: str) -> str | None:
    """What a wrong key may mean: a plural, an adverb, a slip of the finger."""
    from difflib import get_close_matches

    usual = {
        "daily": "day",
        "hourly": "hour",
        "date": "day",
        "dir": "project",
        "directory": "project",
        "cli": "provider",
    }
    close = get_close_matches(word, KEYS, 1, 0.6)
    return usual.get(word) or (close[0] if close else None)


def find_zone(name: str | None) -> tzinfo:
    """The zone called so, or the machine's own."""
    if name is None:
        return LocalZone()
    if name == "UTC":  # without the tables of all the others
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CorralError(f"no time zone named {name!r}", hint="for example Europe/Berlin", exit_code=2) from error


def parse_time(text: str | None, zone: tzinfo, now: float) -> float | None:
    """A date at its midnight, or days or hours before now."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    try:
        if number.isdecimal() and unit in "dh":
            return now - timedelta(**{"d": {"days": int(number)}, "h": {"hours": int(number)}}[unit]).total_seconds()
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError) as error:
        raise CorralError(f"{text!r} is not a time", hint="for example 2026-11-15, 7d or 12h", exit_code=2) from error


def find_begin(per: str, now: float, zone: tzinfo) -> float:
    """The local midnight at which the day, the week (Monday) or the month began."""
    day = datetime.fromtimestamp(now, zone).date()
    if per == "week":
        day -= timedelta(days=day.weekday())
    elif per == "month":
        day = day.replace(day=1)
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()


def parse_budget(text: str) -> Decimal:
    """An amount of money, without its sign."""
    try:
        amount = Decimal(text)
    except ArithmeticError:
        amount = Decimal(-1)
    if not amount.is_finite() or not _LEAST_BUDGET <= amount <= _MOST_BUDGET:
        raise CorralError(f"{text!r} is not an amount", hint="for example --budget 50 or --budget 12.50", exit_code=2)
    return amount


def check_budget(report: UsageReport, by: Sequence[str], amount: Decimal) -> BudgetReport:
    """The budget is per period where rows are that alone, else for all that was asked about."""
    per = by[0] if len(by) == 1 and by[0] in TIME_KEYS else None
    if per is None:
        periods = (_check(None, report.total.cost, amount),)
    else:
        periods = tuple(_check(row.key[per], row.cost, amount) for row in report.rows)
    return BudgetReport(
        amount=amount,
        currency=report.total.cost.currency,
        per=per,
        over=any(period.over for period in periods),
        at_least=any(period.at_least for period in periods),
        periods=periods,
    )


def _check(key: str | None, cost: CostReport, amount: Decimal) -> BudgetPeriod:
    used = cost.amount or Decimal(0)
    return BudgetPeriod(key=key, used=used, at_least=cost.unpriced_events > 0, over=used > amount)
