"""Reading an SQLite database that belongs to somebody else: never written, never waited for, never half believed.

    with open_foreign(path) as db:
        need_columns(db, "session", ("id", "title"))
        for row in db.execute("SELECT id, title FROM session"): ...

What goes wrong is raised as sqlite3.Error: it costs the step that asked, and is reported.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

from corral.providers.kit.stamped import stamp_of

_WAIT_SECONDS = 0.05
_BESIDE = ("-wal", "-shm", "-journal")


def read_stamp(path: str) -> tuple[int, ...]:
    """How the database and its log look: equal stamps, equal content."""
    return tuple(number for name in (path, f"{path}-wal") for number in stamp_of(name) or (-1,))


@contextmanager
def open_foreign(path: str) -> Generator[sqlite3.Connection]:
    """A connection that can only read. Raises sqlite3.Error."""
    wal, shm, journal = (os.path.lexists(path + ending) for ending in _BESIDE)
    if wal and not shm:
        raise sqlite3.OperationalError(f"{path}-wal has no -shm beside it, and reading would make one")
    if journal:
        raise sqlite3.OperationalError(f"{path} is being written, or its writer was killed")
    # SQLite makes -wal and -shm where they are missing, even to read, and they would be ours and not the CLI's. Where
    # they are missing nobody has the database open: then it is read as it is, and compared afterwards.
    before = read_stamp(path)
    # Without `readonly_shm` a reader marks its place in -shm, and the file is another one afterwards.
    how = "mode=ro&readonly_shm=1" if wal else "mode=ro&immutable=1"
    db = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?{how}", uri=True, timeout=_WAIT_SECONDS)
    try:
        db.execute("PRAGMA query_only = 1")
        yield db
    finally:
        db.close()
    if not wal and (read_stamp(path) != before or any(os.path.lexists(path + ending) for ending in _BESIDE)):
        raise sqlite3.OperationalError(f"{path} was changed while it was read")


def need_columns(db: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
    """Raises sqlite3.OperationalError unless the table has all of them: a schema is known by these, not by a number."""
    present = {name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    if missing := [name for name in columns if name not in present]:
        raise sqlite3.OperationalError(f"its table {table} has no {', '.join(missing)}")
