"""Asking the ledger for a view: a damaged one is made again, and what goes wrong with its file is told as such."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager

from corral.errors import CorralError
from corral.machine import places
from corral.usage.checksums import Damaged, is_damage
from corral.usage.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from corral.usage.read import OnProgress

    _T = TypeVar("_T")


def ask_ledger(ask: Callable[[Ledger], _T], *, or_memory: bool = False, on_progress: OnProgress | None = None) -> _T:
    """What `ask` finds in the ledger of this user. Raises CorralError when it can't be used.

    When something in it is not as it was written, the ledger is made again and asked once more: `ask` must bear being
    called again. `on_progress` hears how far that is.
    With `or_memory`, one that lives in memory stands in where nothing can be written: it reads all logs every time.
    """
    with naming_trouble():
        ledger = _open(or_memory, on_progress)
        try:
            return ask(ledger)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # What a newer corral made is its own.
            if not is_damage(error) or ledger.read_only:
                raise
            why = str(error)
        finally:
            ledger.close()
        ledger = mend_ledger(why, ledger.found, unwritable=ledger.unwritable, on_progress=on_progress)
        try:
            return ask(ledger)
        finally:
            ledger.close()


def mend_ledger(
    why: str, seen: os.stat_result | None, *, unwritable: str | None = None, on_progress: OnProgress | None = None
) -> Ledger:
    """Where something in the file `seen` is not as it was written: the ledger, made again. Raises as that does."""
    from corral.usage.rebuild import make_again

    return make_again(places.state_dir(), why, seen, unwritable=unwritable, on_progress=on_progress)


@contextmanager
def naming_trouble() -> Generator[None]:
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


def _open(or_memory: bool, on_progress: OnProgress | None) -> Ledger:
    try:
        try:
            return Ledger(places.state_dir(), aside=True)
        except Damaged as damaged:
            return mend_ledger(str(damaged), damaged.seen, on_progress=on_progress)
    except OSError as error:
        if not or_memory:
            raise
        # A state directory that can't be written must not hide what the logs say.
        return Ledger(places.state_dir(), unwritable=error.strerror or str(error))
