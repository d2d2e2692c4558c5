"""Reading what is new into the ledger: in files that are known to have grown, or in all that listing homes finds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
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
from corral.providers.contract import Environment
from corral.providers.registry import all_providers, find_provider
from corral.providers.settings import read_settings
from corral.sessions.cache import Cache
from corral.sessions.gather import environment
from corral.usage.changes import (
    CONFIG_PROBLEM,
    CURRENCY,
    UNKNOWN_PRICES,
    Changes,
    make_fingerprint,
    make_watch,
    to_grown_memos,
    to_memos,
)
from corral.usage.deferred import VANISHED, list_deferred, may_wait, name_vanished, note_deferred
from corral.usage.families import Ties
from corral.usage.journaled import ReportedSessions, list_usage_homes
from corral.usage.ledger import FINGERPRINT, Ledger
from corral.usage.price_table import TablePricer
from corral.usage.read import HURRIED_BYTES, OnProgress, Pending, Reader, finish, read_and_store
from corral.usage.rows import Rows, is_read, storable
from corral.usage.update import DECIDERS, VARIABLES

_LIST = "list "
_UNLISTED = f"{UNREAD}: its logs could not be listed"


def read_all(ledger: Ledger, on_progress: OnProgress | None, seconds: float | None, cutoff: int | None) -> bool:
    """List every home, read what is new and needed, and remember how everything looked."""
    left = scan_homes(ledger, on_progress, seconds, cutoff)
    ledger.publish()
    finish(ledger)
    return not left


def scan_homes(
    ledger: Ledger, on_progress: OnProgress | None, seconds: float | None = None, cutoff: int | None = None
) -> list[Pending]:
    """The same without letting a new ledger appear; what is left when the time is up."""
    ledger.begin_looking()
    deadline = None if seconds is None else time.monotonic() + seconds
    begun_ns = time.time_ns()
    config = read_settings()
    env = environment(config, Cache(places.cache_dir()))
    asker = Asker()
    fingerprint = _prepare_fingerprint(env, asker)
    visits = Visits()
    looks: dict[str, os.stat_result | None] = {}
    told = ReportedSessions(places.state_dir())
    _forget_unread(ledger)
    name_vanished(ledger)
    pending, deferred = _split(ledger, _find_pending(ledger, env, told, visits, looks, asker), looks, cutoff)
    note_deferred(ledger, deferred)
    pricer = TablePricer(config)
    reader = Reader(pricer, told)
    _note_unlisted(ledger, reader, asker)
    left = read_and_store(ledger, reader, pending, on_progress, deadline)
    for one in left:
        looks[one.source.path] = None
    if visits.deciders:
        fingerprint[DECIDERS] = b"\0".join(
            [*filter(None, [fingerprint[DECIDERS]]), *sorted(map(os.fsencode, visits.deciders))]
        )
    unknown = pricer.list_unknown()
    fingerprint[UNKNOWN_PRICES] = json.dumps(unknown).encode() if unknown else b""
    # Those are found by listing alone; and what could not be listed has to be listed again.
    if not any(one.former for one in left) and not asker.degraded:
        ledger.keep_looks(_make_memos(fingerprint, config) | to_memos(make_watch(looks, visits, begun_ns)))
    return left


def _forget_unread(ledger: Ledger) -> None:
    """What stood in the place of a log and is gone hides nothing any more. Lines of a log that is gone stay missing.

    Of a home that could not be listed, this listing will tell.
    """
    ledger.checks.tables("skips", *([] if ledger.is_new else ["sources"]))
    query = "SELECT path, reason FROM skips JOIN sources ON sources.id = source WHERE reason LIKE ?"
    unread = list(ledger.db.execute(query, (f"{UNREAD}%",)))
    unread = [(path, why) for path, why in unread if why != VANISHED]
    if gone := [path for path, why in unread if why.startswith(_UNLISTED) or not os.path.lexists(path)]:
        ledger.drop_skips(gone, UNREAD)


def _note_unlisted(ledger: Ledger, reader: Reader, asker: Asker) -> None:
    """A home whose logs could not be listed, as something that was skipped: sums without it are not all there is."""
    homes = [(one, one.step.removeprefix(_LIST)) for one in asker.degraded if one.step.startswith(_LIST)]
    rows = [
        reader.note_unread(
            Pending(
                find_provider(one.provider),
                UsageSource(provider=one.provider, home=home, scope="", session_id="", path=home),
                None,
                0,
                basis="",
            ),
            f"its logs could not be listed: {one.reason}",
        )
        for one, home in homes
    ]
    if rows:
        ledger.store_rows(rows, reader.pricer)


def _prepare_fingerprint(env: Environment, asker: Asker) -> dict[str, bytes]:
    """Before anything is listed: what decides where homes are."""
    variables = sorted({name for provider in all_providers() for name in provider.capabilities.home_variables})
    bare = msgspec.structs.replace(env, variables={})
    homes = {
        home.path
        for provider in all_providers()
        for one in (env, bare)
        for home in asker.each(provider, "find its homes", lambda provider=provider, one=one: provider.homes(one))
    }
    return {
        VARIABLES: "\0".join(variables).encode(),
        DECIDERS: b"\0".join(sorted(map(os.fsencode, homes))),
    }


def _make_memos(fingerprint: dict[str, bytes], config: Config) -> dict[str, bytes]:
    lists = [fingerprint[name].decode(errors="surrogateescape").split("\0") for name in (VARIABLES, DECIDERS)]
    currency = f"{config.currency.code} {config.currency.rate}" if config.currency else "USD 1"
    return fingerprint | {
        FINGERPRINT: make_fingerprint(*lists).encode(errors="surrogateescape"),
        CURRENCY: currency.encode(),
        CONFIG_PROBLEM: (config.problem or "").encode(errors="replace"),
    }


def _split(
    ledger: Ledger, found: Iterator[Pending], looks: Mapping[str, os.stat_result | None], cutoff: int | None
) -> tuple[list[Pending], list[tuple[UsageSource, os.stat_result]]]:
    """What is to be read, and what may wait and is not noted so yet."""
    pending: list[Pending] = []
    deferred: list[tuple[UsageSource, os.stat_result]] = []
    for one in found:
        seen = looks[one.source.path]
        if one.before is not None or seen is None or not may_wait(one.provider, one.source, seen, cutoff):
            pending.append(one)
        else:
            deferred.append((one.source, seen))
    return pending, deferred


def _find_pending(
    ledger: Ledger,
    env: Environment,
    told: ReportedSessions,
    visits: Visits,
    looks: dict[str, os.stat_result | None],
    asker: Asker,
) -> Iterator[Pending]:
    """The files that are new or not as they were, with the bytes there are to read."""
    known = ledger.read_sources()
    for provider in all_providers():
        # What agents report can name further homes.
        visits.scan(directory_of(places.state_dir(), provider.name))
        homes = list_usage_homes(provider, env, ledger, told, asker)
        listed = (
            one
            for home in homes
            for one in asker.each(
                provider,
                f"{_LIST}{home.path}",
                lambda provider=provider, home=home: provider.usage.list_sources(home, visits),
            )
        )
        ties = Ties(ledger, provider.name, listed)
        for source in ties.sources:
            try:
                seen = looks[source.path] = os.stat(source.path, follow_symlinks=False)
            except OSError:
                looks[source.path] = None
                continue
            described, before = known.get(storable(source.path), ("", None))
            if source.is_table:
                # What is new may be in the database's log alone, which comes and goes: its provider is asked each time.
                visits.scan(os.path.dirname(source.path))
                looks[source.path] = None
                yield Pending(provider, source, before, seen.st_size if before is None else 0, basis=described)
                continue
            now = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if before is None or before.deferred:
                yield Pending(provider, source, None, seen.st_size, basis=described)
            elif (former := ties.find_former(source)) is not None:
                yield Pending(provider, source, before, seen.st_size, former, described)
            elif before[:4] != now:
                yield Pending(provider, source, before, max(0, seen.st_size - before.offset), basis=described)


_PIECE_BYTES = 64 << 20
"""A larger log is left to the server, or to a question about everything: a person would feel it."""
_BEGINNING = 4 << 10
"""Where the beginning of a log may tell its family: one that was shorter may be told from others now."""


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
    reader = Reader(TablePricer(read_settings()), ReportedSessions(places.state_dir()))
    read_and_store(ledger, reader, pending, on_progress, None, to_grown_memos(changes.watch))
    finish(ledger)
    return True


def read_waiting(ledger: Ledger, seconds: float) -> None:
    """Read some of the logs that wait, the oldest first, for about so long."""
    deadline = time.monotonic() + seconds
    reader = Reader(TablePricer(read_settings()), ReportedSessions(places.state_dir()))
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


def list_waiting(ledger: Ledger, cutoff: int | None) -> Iterator[Pending]:
    """The logs that wait and are needed, as they were listed last."""
    for source, described, size in list_deferred(ledger, cutoff):
        with suppress(CorralError):  # of a provider that is no more
            yield Pending(find_provider(source.provider), source, None, size, basis=described)


def _find_known(ledger: Ledger, path: str) -> Pending | None:
    """A file by what the ledger knows of it; None if it has to be listed: what is told of it may have changed too."""
    known = ledger.find_described(storable(path))
    described, before = known if known is not None else (None, None)
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
