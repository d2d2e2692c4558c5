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
        ledger = Ledger(places.state_dir())
        try:
            yield ledger
        finally:
            ledger.close()
    except (OSError, sqlite3.Error) as error:
        raise CorralError(f"the ledger below {places.state_dir()} can't be used: {error}") from error
