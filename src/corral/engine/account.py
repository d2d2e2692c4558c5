"""Keeping the ledger: see what has changed since the last time, and read only that.

Standard library only, as long as nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.engine.footing import make_footing, price_stamp
from corral.engine.usage_watch import Changes, find_changes, load_watch
from corral.light_typing import NamedTuple
from corral.store.ledger import Ledger
from corral.system.light_import import import_msgspec

FOOTING, VARIABLES, DECIDERS = "footing", "variables", "deciders"


class Progress(NamedTuple):
    """How far a scan has come, for whoever shows it."""

    done_bytes: int
    total_bytes: int


Tell = Callable[[Progress], None]


def update_ledger(ledger: Ledger, tell: Tell | None = None, *, seconds: float | None = None) -> bool:
    """Read everything that was appended since the last time. Safe beside others that do the same.

    With `seconds`, only as much as can be read in about that time: False when something is left for the next time.
    """
    if ledger.read_only:
        return False
    changes = look_for_changes(ledger)
    if changes is not None and not changes.files:
        return True
    import_msgspec()
    if changes is not None:
        from corral.engine.grown import read_grown

        if read_grown(ledger, changes, tell, seconds):
            return True
    from corral.engine.scan import read_all

    return read_all(ledger, tell, seconds)


def look_for_changes(ledger: Ledger) -> Changes | None:
    """Which files are to be read; None when everything has to be listed."""
    footing = ledger.find_memo(FOOTING)
    if footing is None:
        return None
    known = [(ledger.find_memo(name) or b"").decode(errors="surrogateescape") for name in (VARIABLES, DECIDERS)]
    now = make_footing(*(text.split("\0") if text else [] for text in known))
    if now.encode(errors="surrogateescape") != footing or not ledger.is_priced_by(price_stamp()):
        return None
    watch = load_watch(ledger)
    return None if watch is None else find_changes(watch)
