"""Checksums of the ledger's rows: how one is made, and what is raised where it is not right."""

from __future__ import annotations

import os
import sqlite3
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.usage.rows import Row

SUM_FUNCTION = "row_sum"
COLUMNS = {
    "homes": "id, provider, path",
    "sessions": "id, home, scope, session_id, work_dir, has_log",
    "events": (
        "key, session, rank, at, agent, model, model_source, input, cache_read, cache_write, cache_write_1h, output,"
        " reasoning, branch, ambiguous, dollars, picos, assumed"
    ),
    "actions": "key, session, rank, at, kind, name",
    "unrecorded": "key, session, rank, at, kind",
    "sources": "id, path, device, inode, size, mtime_ns, head, head_size, offset, tail, deferred, described",
    "skips": "source, offset, reason",
    "labels": "id, model, branch",
    "prices": "model, listed_as, source, dated, assumed",
    "memo": "name, value",  # summed by the ledger itself: values are long
    "seals": "name, part, rows, total",
    "losses": "id, noticed_at, what, rows, since, until, acknowledged",
}
"""Of each table all that its rows' checksums are made of, in the order of the table."""
NEW_COLUMNS = {"deferred": 0}
"""What stands for a column that a ledger of an earlier schema does not have."""
FORMER_TABLES = {"actions": "deeds"}
"""How schema 4 called a table."""
SEALED = ("homes", "sessions", "events", "actions", "unrecorded", "sources", "skips", "labels", "prices", "losses")
"""Tables of which `seals` knows how many rows there are: one that is gone shows. A row of `memo` that is gone costs
time and nothing else. One of `sources` may be all that still tells of which family a log is."""

SUMS = (
    *("quarter", "session", "label", "turns", "events", "input", "cache_read", "cache_write", "cache_write_1h"),
    *("output", "reasoning", "dollars", "picos", "unpriced", "assumed"),
)
_FACTORS = (
    *(174_763, 245_759, 131_101, 262_139, 199_999, 150_011, 230_003, 188_017, 211_007),
    *(143_977, 256_019, 167_009, 239_999, 221_021, 179_021),
)
_PRIME = 4_294_967_291
SUM_OF_NUMBERS = (
    f"(({' + '.join(f'{name} * {factor}' for name, factor in zip(SUMS, _FACTORS, strict=True))}) % {_PRIME})"
)
"""The checksum of a row of `quarters`, which has numbers only: SQLite makes it ten times as fast as we can."""


class Damaged(sqlite3.DatabaseError):
    """The ledger is not as it was written: what it says can't be used, and it has to be made from the logs again."""

    seen: os.stat_result | None = None
    """The file, if nothing else has it open."""


def sum_row(*values: object) -> int:
    """Of the values as Python writes them: types differ as well as contents."""
    return crc32(ascii(values).encode())


def is_right(row: Row) -> bool:
    """Whether a row that ends with its checksum is as it was written."""
    return crc32(ascii(row[:-1]).encode()) == row[-1]


def add_functions(db: sqlite3.Connection) -> None:
    db.create_function(SUM_FUNCTION, -1, sum_row, deterministic=True)


def select_rows(table: str) -> str:
    """The beginning of a query for whole rows, each with its checksum at the end."""
    return f"SELECT {COLUMNS[table]}, sum FROM {table}"


def set_sums(db: sqlite3.Connection, table: str, where: str = "1", values: Row = ()) -> None:
    """Give rows that were written their checksums."""
    db.execute(f"UPDATE {table} SET sum = {SUM_FUNCTION}({COLUMNS[table]}) WHERE {where}", values)


def is_damage(error: BaseException) -> bool:
    """Whether an error of SQLite says that the file is not what it should be, and not that something is in its way."""
    # SQLite may quote what is in its place.
    if isinstance(error, Damaged | sqlite3.IntegrityError | sqlite3.DataError | UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, sqlite3.OperationalError):
        # Without a code: text that is none. SQLITE_ERROR: a table or column that should be there is not.
        return code in (None, sqlite3.SQLITE_ERROR)
    return type(error) is sqlite3.DatabaseError and code != sqlite3.SQLITE_AUTH
