"""What a person can do about the ledger: have it made again, and take note of what is lost."""

from __future__ import annotations

from corral.engine.account import Tell
from corral.engine.ledger_access import telling_trouble
from corral.engine.rebuilding import make_again
from corral.engine.usage_losses import list_losses
from corral.engine.usage_types import LossRow
from corral.errors import CorralError
from corral.store.checksums import Damaged
from corral.store.ledger import Ledger
from corral.system import places


def rebuild_ledger(tell: Tell | None) -> tuple[str, tuple[LossRow, ...]]:
    """Make it again from the logs, with all that only it knows: what was done, and what is lost. Raises CorralError."""
    with telling_trouble():
        try:
            found = Ledger(places.state_dir())
            if found.read_only:
                raise CorralError(found.notice or "the ledger is not ours to write")
            seen, why = found.found, "asked for"
            found.close()
        except Damaged as damaged:
            seen, why = damaged.seen, str(damaged)
        ledger = make_again(places.state_dir(), why, seen, tell=tell, asked_for=why == "asked for")
        try:
            return ledger.notice or "", list_losses(ledger)
        finally:
            ledger.close()


def acknowledge_losses(ledger: Ledger) -> tuple[LossRow, ...]:
    """Say them no more; which they were."""
    losses = list_losses(ledger)
    if losses:
        ledger.acknowledge_losses()
    return losses
