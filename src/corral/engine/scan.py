"""Listing every home, reading what is new in its usage logs into the ledger, and remembering how everything looked."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

import msgspec

from corral.engine.account import DECIDERS, FOOTING, VARIABLES, Tell
from corral.engine.catalogue import all_providers
from corral.engine.footing import CONFIG_PROBLEM, CURRENCY, UNKNOWN_PRICES, make_footing
from corral.engine.gather import environment
from corral.engine.pricer import TablePricer
from corral.engine.settings import read_settings
from corral.engine.told_sessions import ToldSessions
from corral.engine.usage_families import Ties
from corral.engine.usage_homes import list_usage_homes
from corral.engine.usage_reading import Pending, Reader
from corral.engine.usage_storing import finish, read_and_store
from corral.engine.usage_types import UNREAD
from corral.engine.usage_watch import make_watch, to_memos
from corral.hooks.journal_file import directory_of
from corral.providers import Environment
from corral.store.cache import Cache
from corral.store.ledger import Ledger
from corral.store.ledger_rows import storable
from corral.system import places
from corral.system.config import Config
from corral.system.visits import Visits


def read_all(ledger: Ledger, tell: Tell | None, seconds: float | None) -> bool:
    """List every home, read what is new, and remember how everything looked."""
    left = scan_homes(ledger, tell, seconds)
    ledger.publish()
    finish(ledger)
    return not left


def scan_homes(ledger: Ledger, tell: Tell | None, seconds: float | None) -> list[Pending]:
    """The same without letting a new ledger appear; what is left when the time is up."""
    deadline = None if seconds is None else time.monotonic() + seconds
    begun_ns = time.time_ns()
    config = read_settings()
    env = environment(config, Cache(places.cache_dir()))
    footing = _prepare_footing(env)
    visits = Visits()
    looks: dict[str, os.stat_result | None] = {}
    told = ToldSessions(places.state_dir())
    _forget_unread(ledger)
    pending = list(_find_pending(ledger, env, told, visits, looks))
    pricer = TablePricer(config)
    left = read_and_store(ledger, Reader(pricer, told), pending, tell, deadline)
    for one in left:
        looks[one.source.path] = None
    if visits.deciders:
        footing[DECIDERS] = b"\0".join([*filter(None, [footing[DECIDERS]]), *sorted(map(os.fsencode, visits.deciders))])
    unknown = pricer.list_unknown()
    footing[UNKNOWN_PRICES] = json.dumps(unknown).encode() if unknown else b""
    if not any(one.former for one in left):  # those are found by listing alone
        ledger.keep_memos(_make_memos(footing, config) | to_memos(make_watch(looks, visits, begun_ns)))
    return left


def _forget_unread(ledger: Ledger) -> None:
    """What stood in the place of a log and is gone hides nothing any more. Lines of a log that is gone stay missing."""
    ledger.checks.tables("skips")
    query = "SELECT path FROM skips JOIN sources ON sources.id = source WHERE reason LIKE ?"
    unread = [path for (path,) in ledger.db.execute(query, (f"{UNREAD}%",))]
    if gone := [path for path in unread if not os.path.lexists(path)]:
        ledger.drop_skips(gone, UNREAD)


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
        homes = list_usage_homes(provider, env, ledger, told)
        ties = Ties(ledger, provider.name, (one for home in homes for one in provider.list_usage_sources(home, visits)))
        for source in ties.sources:
            try:
                seen = looks[source.path] = os.stat(source.path, follow_symlinks=False)
            except OSError:
                looks[source.path] = None
                continue
            before = known.get(storable(source.path))
            now = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if before is None:
                yield Pending(provider, source, None, seen.st_size)
            elif (former := ties.find_former(source)) is not None:
                yield Pending(provider, source, before, seen.st_size, former)
            elif before[:4] != now:
                yield Pending(provider, source, before, max(0, seen.st_size - before.offset))
