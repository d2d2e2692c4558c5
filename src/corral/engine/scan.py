"""Reading what is new in usage logs into the ledger: in all homes, or in files that are known to have grown."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from corral.engine.account import DECIDERS, FOOTING, VARIABLES, Progress, Tell
from corral.engine.catalogue import all_providers, find_provider
from corral.engine.footing import CONFIG_PROBLEM, CURRENCY, make_footing
from corral.engine.gather import environment
from corral.engine.pricer import TablePricer
from corral.engine.settings import read_settings
from corral.engine.told_sessions import ToldSessions
from corral.engine.usage_homes import list_usage_homes
from corral.engine.usage_reading import Pending, Reader, read_pending
from corral.engine.watch import Changes, make_watch, to_memos
from corral.errors import CorralError
from corral.hooks.journal_file import directory_of
from corral.model.usage import UsageSource
from corral.providers import Environment
from corral.store.cache import Cache
from corral.store.ledger import Ledger
from corral.store.ledger_backup import back_up
from corral.store.ledger_rows import Rows, SourceState, storable
from corral.system import places
from corral.system.config import Config
from corral.system.visits import Visits

_ROWS_AT_ONCE = 20_000
_HURRIED_BYTES = 8 << 20
"""More than this of one file is not read in a hurry."""


def read_grown(ledger: Ledger, changes: Changes, tell: Tell | None, seconds: float | None) -> bool:
    """Read files that are not as they were; False when that is not all there is to do."""
    pending: list[Pending] = []
    for path in changes.files:
        one = _find_known(ledger, path)
        if one is None or (seconds is not None and one.size > _HURRIED_BYTES):
            return False
        pending.append(one)
    reader = Reader(TablePricer(read_settings()), ToldSessions(places.state_dir()))
    _read(ledger, reader, pending, tell, None)
    ledger.keep_memos(to_memos(changes.watch))
    _finish(ledger)
    return True


def _find_known(ledger: Ledger, path: str) -> Pending | None:
    """A file by what the ledger knows of it; None if it has to be listed: what is told of it may have changed too."""
    row = ledger.db.execute(
        f"SELECT described, {', '.join(SourceState._fields)} FROM sources WHERE path = ?", (storable(path),)
    ).fetchone()
    if row is None or row[0] is None:
        return None
    try:
        source = msgspec.json.decode(row[0], type=UsageSource)
        provider = find_provider(source.provider)
        size = os.stat(path, follow_symlinks=False).st_size
    except (msgspec.MsgspecError, CorralError, OSError):
        return None
    if source.session_id and source.work_dir is None:
        return None
    before = SourceState(*row[1:])
    return Pending(provider, source, before, max(0, size - before.offset))


def read_all(ledger: Ledger, tell: Tell | None, seconds: float | None) -> bool:
    """List every home, read what is new, and remember how everything looked."""
    deadline = None if seconds is None else time.monotonic() + seconds
    begun_ns = time.time_ns()
    config = read_settings()
    env = environment(config, Cache(places.cache_dir()))
    footing = _prepare_footing(env)
    visits = Visits()
    looks: dict[str, os.stat_result | None] = {}
    told = ToldSessions(places.state_dir())
    pending = list(_find_pending(ledger, env, told, visits, looks))
    left = _read(ledger, Reader(TablePricer(config), told), pending, tell, deadline)
    for one in left:
        looks[one.source.path] = None
    if visits.deciders:
        footing[DECIDERS] = b"\0".join([*filter(None, [footing[DECIDERS]]), *sorted(map(os.fsencode, visits.deciders))])
    ledger.keep_memos(_make_memos(footing, config) | to_memos(make_watch(looks, visits, begun_ns)))
    ledger.publish()
    _finish(ledger)
    return not left


def _prepare_footing(env: Environment) -> dict[str, bytes]:
    """Before anything is listed: what decides where homes are."""
    variables = sorted({name for provider in all_providers() for name in provider.capabilities.home_variables})
    bare = msgspec.structs.replace(env, variables={})
    homes = {home.path for provider in all_providers() for one in (env, bare) for home in provider.homes(one)}
    return {
        VARIABLES: "\0".join(variables).encode(),
        DECIDERS: b"\0".join(sorted(map(os.fsencode, homes))),
    }


def _make_memos(footing: dict[str, bytes], config: Config) -> dict[str, bytes]:
    lists = [footing[name].decode(errors="surrogateescape").split("\0") for name in (VARIABLES, DECIDERS)]
    currency = f"{config.currency.code} {config.currency.rate}" if config.currency else "USD 1"
    return footing | {
        FOOTING: make_footing(*lists).encode(errors="surrogateescape"),
        CURRENCY: currency.encode(),
        CONFIG_PROBLEM: (config.problem or "").encode(errors="replace"),
    }


def _find_pending(
    ledger: Ledger, env: Environment, told: ToldSessions, visits: Visits, looks: dict[str, os.stat_result | None]
) -> Iterator[Pending]:
    """The files that are new or not as they were, with the bytes there are to read."""
    known = ledger.source_states()
    for provider in all_providers():
        # What agents report can name further homes.
        visits.scan(directory_of(places.state_dir(), provider.name))
        for home in list_usage_homes(provider, env, ledger, told):
            for source in provider.list_usage_sources(home, visits):
                try:
                    seen = looks[source.path] = os.stat(source.path, follow_symlinks=False)
                except OSError:
                    looks[source.path] = None
                    continue
                before = known.get(storable(source.path))
                now = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
                if before is None:
                    yield Pending(provider, source, None, seen.st_size)
                elif before[:4] != now:
                    yield Pending(provider, source, before, max(0, seen.st_size - before.offset))


def _read(
    ledger: Ledger, reader: Reader, pending: Sequence[Pending], tell: Tell | None, deadline: float | None
) -> list[Pending]:
    """Read and store; what is left when the time is up."""
    total, done = sum(one.size for one in pending), 0
    waiting: list[Rows] = []
    count = 0
    left: list[Pending] = []
    found = read_pending(reader, pending) if deadline is None else _read_in_time(reader, pending, deadline, left)
    for some, size in found:
        waiting += some
        count += sum(len(rows.events) + len(rows.deeds) for rows in some)
        done += size
        if count >= _ROWS_AT_ONCE:
            ledger.store_rows(waiting, reader.pricer)
            waiting, count = [], 0
        if tell is not None:
            tell(Progress(done, total))
    if waiting or not ledger.is_priced_by(reader.pricer.stamp):
        ledger.store_rows(waiting, reader.pricer)
    return left


def _read_in_time(
    reader: Reader, pending: Sequence[Pending], deadline: float, left: list[Pending]
) -> Iterator[tuple[list[Rows], int]]:
    for one in pending:
        if one.size > _HURRIED_BYTES or time.monotonic() > deadline:
            left.append(one)
        elif (rows := reader.read(one)) is not None:
            yield [rows], one.size


def _finish(ledger: Ledger) -> None:
    if ledger.changed:
        # Without its copy the ledger is as good as before; the next change tries again.
        with suppress(OSError, sqlite3.Error):
            back_up(ledger)
