"""What was counted once and could not be saved: said with every answer, until somebody acknowledges it.

Standard library only: a report that finds nothing new must not pay for more.
"""

from __future__ import annotations

import time

from corral.engine.usage_types import LossRow
from corral.store.ledger import Ledger


def list_losses(ledger: Ledger) -> tuple[LossRow, ...]:
    """Those that nobody has acknowledged. Raises Damaged."""
    if ledger.read_only:
        return ()
    ledger.checks.tables("losses")
    rows = ledger.db.execute(
        "SELECT noticed_at, what, rows, since, until FROM losses WHERE NOT acknowledged ORDER BY id"
    )
    return tuple(LossRow(*row) for row in rows)


def say_loss(loss: LossRow) -> str:
    """With the period that it concerns, in local days."""
    count = "an unknown number of" if loss.events is None else f"{loss.events:,}"
    maybe = " may be" if loss.events is None else " are"
    until = None if loss.until is None else _day(loss.until)
    if loss.since is None:
        period = "" if until is None else f" from before {until}"
    else:
        since = _day(loss.since)
        period = f" of {since}" if until in (None, since) else f" from {since} to {until}"
    return (
        f"{count} {loss.what}{period}{maybe} missing: they could not be saved when the ledger was found damaged on"
        f" {_day(loss.noticed_at)} (corral usage --acknowledge ends this note)"
    )


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
