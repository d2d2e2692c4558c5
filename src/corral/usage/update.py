"""Keeping the ledger up to date: see what has changed since the last time, and read only that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.usage.changes import Changes, find_changes, load_watch, make_fingerprint, price_stamp
from corral.usage.deferred import find_cutoff, is_any_needed
from corral.usage.ledger import FINGERPRINT, Ledger

if TYPE_CHECKING:
    from corral.usage.read import OnProgress

VARIABLES, DECIDERS = "variables", "deciders"


def update_ledger(
    ledger: Ledger, on_progress: OnProgress | None = None, *, seconds: float | None = None, since: float | None = None
) -> bool:
    """Read everything that was appended since the last time. Safe beside others that do the same.

    With `seconds`, only as much as can be read in about that time: False when something is left for the next time.
    With `since` (epoch seconds), logs that hold nothing from then on may wait (see `deferred`).
    """
    if ledger.read_only:
        return False
    cutoff = find_cutoff(since)
    changes = look_for_changes(ledger)
    if changes is not None and not changes.files and not is_any_needed(ledger, cutoff):
        return True
    from corral.usage.scan import read_all, read_grown

    if changes is not None and read_grown(ledger, changes, cutoff, on_progress, seconds):
        return True
    return read_all(ledger, on_progress, seconds, cutoff)


def look_for_changes(ledger: Ledger) -> Changes | None:
    """Which files are to be read; None when everything has to be listed."""
    fingerprint = ledger.find_memo(FINGERPRINT)
    if fingerprint is None:
        return None
    known = [(ledger.find_memo(name) or b"").decode(errors="surrogateescape") for name in (VARIABLES, DECIDERS)]
    now = make_fingerprint(*(text.split("\0") if text else [] for text in known))
    if now.encode(errors="surrogateescape") != fingerprint or not ledger.is_priced_by(price_stamp()):
        return None
    watch = load_watch(ledger)
    return None if watch is None else find_changes(watch)
