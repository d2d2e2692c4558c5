"""Asking the ledger for a view: a torn page is mended once, and what goes wrong with its file is told as such."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

from corral.errors import CorralError
from corral.store.ledger import Ledger
from corral.system import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _T = TypeVar("_T")


def ask_ledger(ask: Callable[[Ledger], _T], *, or_memory: bool = False) -> _T:
    """What `ask` finds in the ledger of this user. Raises CorralError when it can't be used.

    When a page turns out to be torn, the ledger is made anew and asked once more: `ask` must bear being called again.
    With `or_memory`, one that lives in memory stands in where nothing can be written: it reads all logs every time.
    """
    try:
        ledger = _open(or_memory)
        try:
            return _ask(ledger, ask)
        finally:
            ledger.close()
    except (OSError, sqlite3.Error) as error:
        reason = "the disk is full" if _is_full(places.state_dir()) else str(error)
        raise CorralError(f"the ledger below {places.state_dir()} can't be used: {reason}") from error


def _ask(ledger: Ledger, ask: Callable[[Ledger], _T]) -> _T:
    try:
        return ask(ledger)
    except sqlite3.DatabaseError as error:
        # Only a page that is not what it should be has no class of its own. What a newer corral made is its own.
        if type(error) is not sqlite3.DatabaseError or ledger.read_only or ledger.in_memory:
            raise
        ledger.rebuild(str(error))
    return ask(ledger)


def _is_full(directory: str) -> bool:
    """SQLite calls some writes to a full disk an I/O error."""
    try:
        return os.statvfs(directory).f_bavail == 0
    except OSError:
        return False


def _open(or_memory: bool) -> Ledger:
    try:
        return Ledger(places.state_dir(), aside=True)
    except OSError as error:
        if not or_memory:
            raise
        # A state directory that can't be written must not hide what the logs say.
        return Ledger(places.state_dir(), unwritable=error.strerror or str(error))
