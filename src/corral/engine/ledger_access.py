"""Opening the ledger for a view: what goes wrong with its file is told as such."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from corral.errors import CorralError
from corral.store.ledger import Ledger
from corral.system import places


@contextmanager
def open_ledger() -> Generator[Ledger]:
    """The ledger of this user. Raises CorralError when it can't be used."""
    try:
        ledger = _open()
        try:
            yield ledger
        except sqlite3.DatabaseError as error:
            if (
                type(error) is sqlite3.DatabaseError
            ):  # a page is not what it should be; other errors have classes of their own
                ledger.rebuild(str(error))
                raise CorralError(
                    ledger.notice or "", hint="ask again: the next answer rests on the new one"
                ) from error
            raise
        finally:
            ledger.close()
    except (OSError, sqlite3.Error) as error:
        raise CorralError(f"the ledger below {places.state_dir()} can't be used: {error}") from error


def _open() -> Ledger:
    try:
        return Ledger(places.state_dir(), aside=True)
    except OSError as error:
        # A state directory that can't be written must not hide what the logs say.
        return Ledger(places.state_dir(), unwritable=error.strerror or str(error))
