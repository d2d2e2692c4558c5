"""Copies of the ledger beside it: ledger.db.1 is the newest, at most one a day, three of them."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from corral.state.private_file import name_aside

if TYPE_CHECKING:
    from corral.usage.ledger import Ledger

KEPT = 3
_DAY_S = 86_400


def is_due(ledger: Ledger, now: float | None = None) -> bool:
    """Whether the newest copy is a day old."""
    if ledger.in_memory:
        return False
    with suppress(FileNotFoundError):
        return (time.time() if now is None else now) - os.stat(f"{ledger.path}.1").st_mtime >= _DAY_S
    return True


def back_up(ledger: Ledger, now: float | None = None) -> bool:
    """Copy the ledger if the newest copy is a day old; whether it did.

    Raises OSError or sqlite3.Error: the ledger itself is fine then.
    """
    if not is_due(ledger, now):
        return False
    newest = f"{ledger.path}.1"
    made = name_aside(ledger.path, "backup")
    os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        copy = sqlite3.connect(made)
        try:
            ledger.db.backup(copy)
        finally:
            copy.close()
        for number in range(KEPT, 1, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{ledger.path}.{number - 1}", f"{ledger.path}.{number}")
        os.replace(made, newest)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(made)
    return True


def list_backups(path: str) -> list[str]:
    """The copies of a ledger that there are, the newest first."""
    return [copy for number in range(1, KEPT + 1) if os.path.isfile(copy := f"{path}.{number}")]
