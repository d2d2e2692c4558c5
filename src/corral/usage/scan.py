"""Reading what is new into the ledger: in files that are known to have grown, or in all that listing homes finds.

A log may wait unread. Where a provider declares that its files are as young as their youngest record, an event of a
period is only in files that were modified since the period began, originals and copies alike. The others are listed,
noted in the ledger with whose they are, and read when a question reaches back to them, or a few at a time after an
answer. How a log counts depends on what is listed and noted, never on what was read before it: so any order gives the
same ledger.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from corral.errors import CorralError
from corral.hooks.program.journal_file import directory_of
from corral.machine import places
from corral.machine.config import Config
from corral.machine.visits import Visits
from corral.model.usage import UsageSource
from corral.model.usage_report import UNREAD
from corral.providers.asking import Asker
from corral.providers.contract import Environment, Provider
from corral.providers.registry import all_providers, find_provider
from corral.providers.settings import read_settings
from corral.sessions.cache import Cache
from corral.sessions.gather import environment
from corral.usage.changes import (
    DECIDERS,
    VARIABLES,
    Changes,
    make_fingerprint,
    make_watch,
    to_grown_memos,
    to_memos,
)
from corral.usage.checks import Damaged, is_right, select_rows
from corral.usage.families import Ties
from corral.usage.homes import ReportedSessions, list_logs
from corral.usage.ledger import CONFIG_PROBLEM, CURRENCY, FINGERPRINT, UNKNOWN_PRICES, Ledger
from corral.usage.price_table import TablePricer
from corral.usage.read import HURRIED_BYTES, OnProgress, Pending, Reader, read_and_store
from corral.usage.rows import Rows, SourceState, describe, is_read, storable

_UNLISTED = f"{UNREAD}: its logs could not be listed"
VANISHED = f"{UNREAD}: it was deleted before it was read"
_PIECE_BYTES = 64 << 20
"""A larger log is left to the server, or to a question about everything: a person would feel it."""
_BEGINNING = 4 << 10
"""The beginning of a log may show its family: one that was shorter can be distinguished from others now."""

_Snapshot = dict[str, os.stat_result | None]
"""How each file looked before it was read; None: look again."""


def read_all(ledger: Ledger, on_progress: OnProgress | None, seconds: float | None, cutoff: int | None) -> bool:
    """List every home, read what is new and needed, and remember how everything looked; False if time was up."""
    left = scan_homes(ledger, on_progress, seconds, cutoff)
    ledger.publish()
    ledger.finish()
    return not left


def scan_homes(
    ledger: Ledger, on_progress: OnProgress | None, seconds: float | None = None, cutoff: int | None = None
) -> list[Pending]:
    """The same without letting a new ledger appear; what is left when the time is up."""
    ledger.begin_scan()
    deadline = None if seconds is None else time.monotonic() + seconds
    begun_ns = time.time_ns()
    config = read_settings()
    env = environment(config, Cache(places.cache_dir()))
    asker, visits, snapshot = Asker(), Visits(), _Snapshot()
    variables, deciders = _list_deciders(env, asker)
    reported = ReportedSessions(places.state_dir())
    _forget_unread(ledger)
    name_vanished(ledger)
    pending: list[Pending] = []
    waiting: list[tuple[UsageSource, os.stat_result]] = []
    for one in _find_pending(ledger, env, reported, visits, snapshot, asker):
        seen = snapshot[one.source.path]
        if one.before is None and seen is not None and may_wait(one.provider, one.source, seen, cutoff):
            waiting.append((one.source, seen))
        else:
            pending.append(one)
    _note_deferred(ledger, waiting)
    pricer = TablePricer(config)
    reader = Reader(pricer, reported)
    _note_unlisted(ledger, reader, asker)
    left = read_and_store(ledger, reader, pending, on_progress, deadline)
    for one in left:
        snapshot[one.source.path] = None
    # What counts otherwise is found by listing alone, and what could not be listed has to be listed again.
    if not any(one.former for one in left) and not asker.degraded:
        memos = _make_memos(variables, [*deciders, *sorted(visits.deciders)], config, pricer.list_unknown())
        ledger.keep_snapshot(memos | to_memos(make_watch(snapshot, visits, begun_ns)))
    return left


def _list_deciders(env: Environment, asker: Asker) -> tuple[list[str], list[str]]:
    """What decides where homes are: the names of variables, and the homes themselves. Before anything is listed."""
    bare = msgspec.structs.replace(env, variables={})
    homes = {
        home.path
        for provider in all_providers()
        for one in (env, bare)
        for home in asker.each(provider, "find its homes", lambda provider=provider, one=one: provider.homes(one))
    }
    variables = {name for provider in all_providers() for name in provider.capabilities.home_variables}
    return sorted(variables), sorted(homes, key=os.fsencode)


def _make_memos(
    variables: Sequence[str], deciders: Sequence[str], config: Config, unknown: dict[str, str]
) -> dict[str, bytes]:
    currency = f"{config.currency.code} {config.currency.rate}" if config.currency else "USD 1"
    return {
        VARIABLES: "\0".join(variables).encode(),
        DECIDERS: os.fsencode("\0".join(deciders)),
        FINGERPRINT: make_fingerprint(variables, deciders).encode(errors="surrogateescape"),
        CURRENCY: currency.encode(),
        CONFIG_PROBLEM: (config.problem or "").encode(errors="replace"),
        UNKNOWN_PRICES: json.dumps(unknown).encode() if unknown else b"",
    }


def _forget_unread(ledger: Ledger) -> None:
    """What was in the place of a log and is gone hides nothing any more. Lines of a log that is gone stay missing.

    Whether a home can be listed now, this scan will show.
    """
    ledger.checks.tables("skips", *([] if ledger.is_new else ["sources"]))
    query = "SELECT path, reason FROM skips JOIN sources ON sources.id = source WHERE reason LIKE ? AND reason != ?"
    unread = ledger.db.execute(query, (f"{UNREAD}%", VANISHED)).fetchall()
    if gone := [path for path, why in unread if why.startswith(_UNLISTED) or not os.path.lexists(path)]:
        ledger.drop_skips(gone, UNREAD)


def _note_unlisted(ledger: Ledger, reader: Reader, asker: Asker) -> None:
    """A home whose logs could not be listed, as something that was skipped: sums without it are not all there is."""
    rows: list[Rows] = []
    for one in asker.degraded:
        if (home := one.step.removeprefix("list ")) != one.step:
            source = UsageSource(provider=one.provider, home=home, scope="", session_id="", path=home)
            pending = Pending(find_provider(one.provider), source, None, 0, basis="")
            rows.append(reader.note_unread(pending, f"its logs could not be listed: {one.reason}"))
    if rows:
        ledger.store_rows(rows, reader.pricer)


def _find_pending(
    ledger: Ledger, env: Environment, reported: ReportedSessions, visits: Visits, snapshot: _Snapshot, asker: Asker
) -> Iterator[Pending]:
    """The files that are new or not as they were, with the bytes there are to read."""
    known = ledger.read_sources()
    for provider in all_providers():
        # What agents report can name further homes.
        visits.scan(directory_of(places.state_dir(), provider.name))
        ties = Ties(ledger, provider.name, list_logs(provider, env, ledger, reported, asker, visits))
        for source in ties.sources:
            try:
                seen = snapshot[source.path] = os.stat(source.path, follow_symlinks=False)
            except OSError:
                snapshot[source.path] = None
                continue
            described, before = known.get(storable(source.path), ("", None))
            if source.is_table:
                # What is new may be in the database's log alone, which comes and goes: its provider is asked each time.
                visits.scan(os.path.dirname(source.path))
                snapshot[source.path] = None
                yield Pending(provider, source, before, seen.st_size if before is None else 0, basis=described)
                continue
            now = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if before is None or before.deferred:
                yield Pending(provider, source, None, seen.st_size, basis=described)
            elif (former := ties.find_former(source)) is not None:
                yield Pending(provider, source, before, seen.st_size, former, described)
            elif before[:4] != now:
                yield Pending(provider, source, before, max(0, seen.st_size - before.offset), basis=described)


def read_grown(
    ledger: Ledger, changes: Changes, cutoff: int | None, on_progress: OnProgress | None, seconds: float | None
) -> bool:
    """Read files that are not as they were, and those that waited and are needed now; False when that is not all there
    is to do."""
    pending: list[Pending] = []
    for path in changes.files:
        one = _find_known(ledger, path)
        if one is None:
            return False
        pending.append(one)
    pending += (one for one in list_waiting(ledger, cutoff) if one.source.path not in changes.files)
    if seconds is not None and sum(one.size for one in pending) > HURRIED_BYTES:
        return False
    read_and_store(ledger, _make_reader(), pending, on_progress, None, to_grown_memos(changes.watch))
    ledger.finish()
    return True


def _make_reader() -> Reader:
    return Reader(TablePricer(read_settings()), ReportedSessions(places.state_dir()))


def _find_known(ledger: Ledger, path: str) -> Pending | None:
    """A file by what the ledger knows of it; None if it has to be listed: what is known of it may have changed too."""
    described, before = ledger.find_source(storable(path)) or (None, None)
    if described is None or before is None:
        return None
    try:
        source = msgspec.json.decode(described, type=UsageSource)
        provider = find_provider(source.provider)
        size = os.stat(path, follow_symlinks=False).st_size
    except (msgspec.MsgspecError, CorralError, OSError):
        return None
    if (source.session_id and source.work_dir is None) or not is_read(before):
        return None
    if source.family is not None and source.agent is None and before.offset < _BEGINNING:
        return None
    return Pending(provider, source, before, max(0, size - before.offset), basis=described)


# --- logs that wait

_NOTE = (
    f"INSERT INTO sources (path, {', '.join(SourceState._fields)}, described) VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, 1, ?)"
    " ON CONFLICT (path) DO UPDATE SET device = excluded.device, inode = excluded.inode, size = excluded.size,"
    " mtime_ns = excluded.mtime_ns, described = excluded.described WHERE deferred"
)


def may_wait(provider: Provider, source: UsageSource, seen: os.stat_result, cutoff: int | None) -> bool:
    """Whether a log that was never read holds nothing that is asked for, and can be found again by its description."""
    is_older = cutoff is not None and provider.usage.dated_by_file and seen.st_mtime_ns < cutoff
    return is_older and describe(source) is not None


def _note_deferred(ledger: Ledger, found: Sequence[tuple[UsageSource, os.stat_result]]) -> None:
    """Keep whose logs these are, and how they look. One that another process has read stays read."""
    if not found or ledger.read_only:
        return
    with ledger.deferring("homes"):
        homes = sorted({(source.provider, storable(source.home)) for source, _ in found})
        ledger.db.executemany("INSERT OR IGNORE INTO homes (provider, path) VALUES (?, ?)", homes)
        rows = [
            (storable(source.path), seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, describe(source))
            for source, seen in found
        ]
        ledger.db.executemany(_NOTE, rows)


def list_waiting(ledger: Ledger, cutoff: int | None) -> Iterator[Pending]:
    """The logs that wait and are needed, the oldest first, as their CLI deletes them. Raises Damaged."""
    if not ledger.needs_deferred(cutoff):
        return
    rows = ledger.db.execute(f"{select_rows('sources')} NOT INDEXED WHERE deferred ORDER BY mtime_ns").fetchall()
    if len(rows) != ledger.count_deferred().files or not (ledger.is_new or all(map(is_right, rows))):
        raise Damaged("a log that waited to be read is not as it was noted")
    for row in rows:
        state, described = SourceState(*row[2 : 2 + len(SourceState._fields)]), row[-2]
        if cutoff is None or state.mtime_ns >= cutoff:
            source = msgspec.json.decode(described, type=UsageSource)
            with suppress(CorralError):  # of a provider that is no more
                yield Pending(find_provider(source.provider), source, None, state.size, basis=described)


def read_waiting(ledger: Ledger, seconds: float) -> None:
    """Read some of the logs that wait, the oldest first, for about so long."""
    deadline = time.monotonic() + seconds
    reader = _make_reader()
    if ledger.read_only or ledger.in_memory or not ledger.is_priced_by(reader.pricer.stamp):
        return
    found: list[Rows] = []
    for one in list_waiting(ledger, None):
        if found and time.monotonic() > deadline:
            break
        if one.size <= _PIECE_BYTES and (rows := reader.read(one)) is not None:
            found.append(rows)
    if found:
        ledger.store_rows(found, reader.pricer, {})


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
