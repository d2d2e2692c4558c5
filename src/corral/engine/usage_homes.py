"""The homes whose usage is counted: those the environment names, and all that corral ever heard of."""

from __future__ import annotations

import os
from collections.abc import Iterable
from zlib import crc32

from msgspec import structs

from corral.engine.told_sessions import ToldSessions
from corral.hooks.journal_file import directory_of
from corral.model.key import Home
from corral.providers import Environment, Provider
from corral.store.ledger import Ledger, SourceState
from corral.system import places


def list_usage_homes(provider: Provider, env: Environment, ledger: Ledger, told: ToldSessions) -> list[Home]:
    """Each directory once, by its real path: a link to a home is not another home, and must not count twice."""
    _learn_homes(provider, ledger, told)
    homes = list(provider.homes(env))
    homes += [
        Home(provider=provider.name, path=path, is_default=False, origin="ledger")
        for path in ledger.home_paths(provider.name)
    ]
    found: dict[str, Home] = {}
    for home in homes:
        real = os.path.realpath(home.path)
        if real not in found and os.path.isdir(real):
            found[real] = structs.replace(home, path=real)
    return list(found.values())


def _learn_homes(provider: Provider, ledger: Ledger, told: ToldSessions) -> None:
    """Note the homes that agents reported, for the day their journals are swept. Read only when one was added."""
    directory = directory_of(places.state_dir(), provider.name)
    try:
        names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except OSError:
        return
    mark = _mark(names)
    if not ledger.read_only and ledger.find_source(directory) != mark:
        ledger.note_homes(provider.name, told.homes(provider.name), directory, mark)


def _mark(names: Iterable[str]) -> SourceState:
    return SourceState(0, 0, 0, 0, crc32("\n".join(names).encode(errors="replace")), 0, 0)
