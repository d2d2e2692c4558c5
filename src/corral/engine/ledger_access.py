"""Asking the ledger for a view: a torn page is mended once, and what goes wrong with its file is told as such."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager

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
    with telling_trouble():
        ledger = _open(or_memory)
        try:
            return _ask(ledger, ask)
        finally:
            ledger.close()


def _ask(ledger: Ledger, ask: Callable[[Ledger], _T]) -> _T:
    try:
        return ask(ledger)
    except sqlite3.DatabaseError as error:
        # What a newer corral made is its own.
        if not is_torn(error) or ledger.read_only or ledger.in_memory:
            raise
        ledger.rebuild(str(error))
    return ask(ledger)


def mend_ledger(why: str, seen: os.stat_result) -> str | None:
    """For whoever asks it by other means, and found a torn page in the file `seen`: what a person should know.

    None when it can't be mended: it is not ours to change. Raises OSError or sqlite3.Error.
    """
    ledger = Ledger(places.state_dir())
    try:
        if ledger.read_only:
            return None
        # Opening it may have been enough, and others may have been quicker: then another file stands there.
        if os.path.samestat(seen, os.stat(ledger.path)):
            ledger.rebuild(why)
        return ledger.notice or f"the ledger could not be used ({why}): another corral has just made it anew"
    finally:
        ledger.close()


def is_torn(error: sqlite3.DatabaseError) -> bool:
    """Whether a page is not what it should be: that has no class of its own, and only a forbidden word has none too."""
    return type(error) is sqlite3.DatabaseError and getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_AUTH


@contextmanager
def telling_trouble() -> Generator[None]:
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


def _open(or_memory: bool) -> Ledger:
    try:
        return Ledger(places.state_dir(), aside=True)
    except OSError as error:
        if not or_memory:
            raise
        # A state directory that can't be written must not hide what the logs say.
        return Ledger(places.state_dir(), unwritable=error.strerror or str(error))
