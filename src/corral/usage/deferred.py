"""Logs that wait to be read: no question needed them yet, as all that they hold is older than what was asked about.

Where a provider declares that its files are as young as their youngest record, an event of a period is only in files
that were modified since the period began, originals and copies alike. The others are listed, noted in the ledger with
whose they are, and read when a question reaches back to them, or a few at a time after an answer. How a log counts
depends on what is listed and noted, never on what was read before it: so any order gives the ledger of one reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from corral.model.usage import UsageSource
from corral.model.usage_report import UNREAD, UnreadLogs, UsageQuery
from corral.usage.checksums import Damaged, is_right, select_rows
from corral.usage.ledger import Ledger
from corral.usage.rows import SourceState, describe, storable

if TYPE_CHECKING:
    from corral.providers.contract import Provider

_MARGIN_S = 86_400.0
"""Clocks differ: how much later than its file's own time a record may be."""
VANISHED = f"{UNREAD}: it was deleted before it was read"
_NOTE = (
    f"INSERT INTO sources (path, {', '.join(SourceState._fields)}, described) VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, 1, ?)"
    " ON CONFLICT (path) DO UPDATE SET device = excluded.device, inode = excluded.inode, size = excluded.size,"
    " mtime_ns = excluded.mtime_ns, described = excluded.described WHERE deferred"
)


def find_cutoff(since: float | None) -> int | None:
    """Files that were last modified before this (ns) hold nothing from `since` on; None: everything may be needed."""
    return None if since is None else int((since - _MARGIN_S) * 1e9)


def may_wait(provider: Provider, source: UsageSource, seen: os.stat_result, cutoff: int | None) -> bool:
    """Whether a log that was never read holds nothing that is asked for, and can be found again by its description."""
    is_older = cutoff is not None and provider.usage.dated_by_file and seen.st_mtime_ns < cutoff
    return is_older and describe(source) is not None


def note_deferred(ledger: Ledger, found: Sequence[tuple[UsageSource, os.stat_result]]) -> None:
    """Keep whose logs these are, and how they look, as if they were read. One that others have read stays so."""
    if not found or ledger.read_only:
        return
    with ledger.deferring("homes"):
        homes = sorted({(source.provider, storable(source.home)) for source, _ in found})
        ledger.db.executemany("INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)", homes)
        ledger.db.executemany(
            _NOTE,
            [
                (storable(source.path), seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, describe(source))
                for source, seen in found
            ],
        )


def list_deferred(ledger: Ledger, cutoff: int | None) -> list[tuple[UsageSource, str, int]]:
    """Logs that wait and that a question needs, the oldest first, as their CLI deletes them: whose each is, that as
    JSON, and its bytes. Raises Damaged."""
    if not is_any_needed(ledger, cutoff):
        return []
    rows = ledger.db.execute(f"{select_rows('sources')} NOT INDEXED WHERE deferred ORDER BY mtime_ns").fetchall()
    if len(rows) != ledger.count_deferred().files or not (ledger.is_new or all(map(is_right, rows))):
        raise Damaged("a log that waited to be read is not as it was noted")
    found = [(row[-2], SourceState(*row[2 : 2 + len(SourceState._fields)])) for row in rows]
    return [
        (msgspec.json.decode(described, type=UsageSource), described, state.size)
        for described, state in found
        if cutoff is None or state.mtime_ns >= cutoff
    ]


def is_any_needed(ledger: Ledger, cutoff: int | None) -> bool:
    waiting = ledger.count_deferred()
    return bool(waiting.files) and (cutoff is None or waiting.newest_ns >= cutoff)


def sum_deferred(ledger: Ledger) -> UnreadLogs | None:
    """How many logs wait; None where none does."""
    waiting = ledger.count_deferred()
    return UnreadLogs(waiting.files, waiting.bytes, waiting.newest_ns / 1e9) if waiting.files else None


def say_deferred(unread: UnreadLogs, query: UsageQuery) -> str:
    """Whether what waits could be part of an answer."""
    count = f"{unread.files:,} {'log' if unread.files == 1 else 'logs'} ({_say_size(unread.bytes)})"
    if query.since is not None and unread.until < query.since - _MARGIN_S:
        return f"{count} not read yet: all they hold is older than what was asked about"
    return f"{count} not read yet: what they hold is missing here (corral usage without --since reads everything)"


def _say_size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def name_vanished(ledger: Ledger) -> None:
    """Say of logs that waited and are gone that they were never read. They may come back."""
    if ledger.read_only or not ledger.count_deferred().files:
        return
    rows = ledger.db.execute("SELECT id, path, described FROM sources WHERE deferred").fetchall()
    gone = [(number, described) for number, path, described in rows if not os.path.lexists(_find_path(path, described))]
    if not gone:
        return
    with ledger.deferring("skips"):
        ids = [(number,) for number, _ in gone]
        ledger.db.executemany("UPDATE sources SET deferred = 0, mtime_ns = -1 WHERE id = ?", ids)
        skip = "INSERT OR REPLACE INTO skips (source, offset, reason) VALUES (?, 0, ?)"
        ledger.db.executemany(skip, [(number, VANISHED) for (number,) in ids])
        _read_shared_again(ledger, (described for _, described in gone))


def _find_path(path: str, described: str | None) -> str:
    """As it is on disk: the path that the ledger has may be written out."""
    try:
        return msgspec.json.decode(described or "", type=UsageSource).path
    except msgspec.MsgspecError:
        return path


def _read_shared_again(ledger: Ledger, gone: Iterable[str]) -> None:
    """A file of the whole home stands in for a session without a log, and passed over lines of one that had one."""
    homes = {(one.provider, one.home) for one in (msgspec.json.decode(each, type=UsageSource) for each in gone)}
    for provider, home in homes:
        ledger.db.execute(
            "UPDATE sources SET mtime_ns = -1, head = 0, head_size = 0, offset = 0, tail = 0 WHERE NOT deferred"
            " AND json_extract(described, '$.provider') = ? AND json_extract(described, '$.home') = ?"
            " AND json_extract(described, '$.session_id') = ''",
            (provider, home),
        )
