"""What was spent, for the page: the ledger brought up to date now and then, and sums per session and day."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from corral.errors import CorralError
from corral.model.key import SessionKey
from corral.model.usage_report import UsageRow
from corral.server.messages import SpentBySession, SpentOnDay, SpentToday
from corral.usage import sum_spending

_DAYS = 14
_PAUSE_SECONDS = 20.0
_FIRST_PAUSE_SECONDS = 1.0


class Spending:
    """Reads logs only when something changed, and rests in between: money is not urgent.

    `on_change` gets the names of the sessions whose sums are not what they were, `on_problem` why there are none.
    """

    def __init__(self, on_change: Callable[[set[str]], None], on_problem: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._on_problem = on_problem
        self._asked = threading.Event()
        self._stopped = threading.Event()
        self._by_session: dict[str, SpentBySession] = {}
        self.today: SpentToday | None = None

    def start(self) -> None:
        self._asked.set()
        threading.Thread(target=self._follow, name="spending", daemon=True).start()

    def ask(self) -> None:
        self._asked.set()

    def stop(self) -> None:
        self._stopped.set()
        self._asked.set()

    def of(self, key: SessionKey) -> SpentBySession | None:
        return self._by_session.get(str(key))

    def _follow(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopped.wait(pause):
            pause = _PAUSE_SECONDS
            self._asked.wait()
            self._asked.clear()
            if self._stopped.is_set():
                return
            before = self.today, self._by_session
            try:
                self._read()
            except (CorralError, OSError) as error:
                self._on_problem(str(error))  # the page shows no money then; `corral usage` says why
            if (self.today, self._by_session) != before:
                self._on_change({name for name, spent in self._by_session.items() if before[1].get(name) != spent})

    def _read(self) -> None:
        spent = sum_spending(_DAYS)
        todays = {row.key["session"]: row for row in spent.today}
        self._by_session = {
            name: _by_session(row, todays.get(name))
            for row in spent.sessions
            if (name := row.key["session"]) is not None
        }
        self.today = _today(
            spent.midnight, {row.key["day"] or "": row for row in spent.days}, [loss.say() for loss in spent.losses]
        )


def _today(midnight: datetime, rows: dict[str, UsageRow], losses: Sequence[str]) -> SpentToday | None:
    if not rows and not losses:
        return None
    names = [(midnight - timedelta(days=back)).strftime("%Y-%m-%d") for back in range(_DAYS - 1, -1, -1)]
    days = tuple(
        SpentOnDay(day=name, cost=_money(rows.get(name)), tokens=rows[name].tokens.total if name in rows else 0)
        for name in names
    )
    currency = next((row.cost.currency for row in rows.values()), "USD")
    return SpentToday(cost=days[-1].cost, currency=currency, tokens=days[-1].tokens, days=days, losses=tuple(losses))


def _by_session(row: UsageRow, today: UsageRow | None) -> SpentBySession:
    return SpentBySession(
        tokens=row.tokens.total,
        cost=_money(row),
        currency=row.cost.currency,
        today_tokens=today.tokens.total if today else 0,
        today_cost=_money(today),
        assumed=bool(row.cost.assumed_events),
    )


def _money(row: UsageRow | None) -> str | None:
    amount: Decimal | None = row.cost.amount if row else None
    return None if amount is None else f"{amount:.4f}".rstrip("0").rstrip(".") if amount else "0"
