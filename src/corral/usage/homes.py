"""What agents reported through our hooks, and the homes whose usage is counted: reported, known, or by default."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from msgspec import structs

from corral.hooks.program.journal_file import directory_of
from corral.machine import places
from corral.machine.visits import Visits
from corral.model.key import Home
from corral.model.usage import UsageSource
from corral.providers.asking import Asker
from corral.providers.contract import Environment, Provider
from corral.usage.ledger import Ledger
from corral.usage.rows import SourceState


class _Start(NamedTuple):
    at: float
    model: str | None


class ReportedSessions:
    """The journals of this user, read once when first asked."""

    def __init__(self, state_dir: str) -> None:
        self._state_dir = state_dir
        self._starts: dict[str, dict[tuple[str, str], list[_Start]]] = {}
        self._homes: dict[str, set[str]] = {}

    def homes(self, provider: str) -> set[str]:
        self._load(provider)
        return self._homes[provider]

    def find_begin(self, provider: str, home: str, session_id: str) -> float | None:
        """When it was first reported, in epoch seconds. What it holds from before that can be a copy. None for a file
        of the whole home, which has no session."""
        starts = self._load(provider).get((home, session_id)) if session_id else None
        return starts[0].at if starts else None

    def has_models(self, provider: str, home: str) -> bool:
        """Whether anything of a home was ever reported."""
        self._load(provider)
        return home in self._homes[provider]

    def find_model(self, provider: str, home: str, session_id: str, at: float) -> str | None:
        """The model of the last report before `at`."""
        named = [start for start in self._load(provider).get((home, session_id), ()) if start.model]
        place = bisect_right(named, at, key=lambda start: start.at)
        return named[place - 1].model if place else None

    def _load(self, provider: str) -> dict[tuple[str, str], list[_Start]]:
        if provider not in self._starts:
            self._starts[provider], self._homes[provider] = {}, set()
            if os.path.isdir(directory_of(self._state_dir, provider)):
                self._read(provider)
        return self._starts[provider]

    def _read(self, provider: str) -> None:
        from corral.hooks.journal import read_journals
        from corral.model.journal import Journal, JournalEventKind

        starts, homes = self._starts[provider], self._homes[provider]
        for journal in read_journals(self._state_dir, provider):
            if isinstance(journal, Journal):
                home = os.path.realpath(journal.home)
                homes.add(home)
                for event in journal.events:
                    if event.event is JournalEventKind.START:
                        start = _Start(event.at, event.model)
                        starts.setdefault((home, event.session_id), []).append(start)
        for found in starts.values():
            found.sort(key=lambda start: start.at)


def list_logs(
    provider: Provider,
    env: Environment,
    ledger: Ledger,
    reported: ReportedSessions,
    asker: Asker,
    visits: Visits | None = None,
) -> Iterator[UsageSource]:
    """The logs of all homes of a provider. `asker` notes a home whose logs can't be listed as `list PATH`."""
    for home in _list_homes(provider, env, ledger, reported, asker):
        yield from asker.each(
            provider, f"list {home.path}", lambda home=home: provider.usage.list_sources(home, visits)
        )


def _list_homes(
    provider: Provider, env: Environment, ledger: Ledger, reported: ReportedSessions, asker: Asker
) -> list[Home]:
    """Each directory once, by its real path: a link to a home is not another home, and must not count twice."""
    _learn_homes(provider, ledger, reported)
    homes = list(asker.ask(provider, "find its homes", lambda: provider.homes(env), lambda _: ()))
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


def _learn_homes(provider: Provider, ledger: Ledger, reported: ReportedSessions) -> None:
    """Note the homes that agents reported, for the day their journals are swept. Read only when one was added."""
    directory = directory_of(places.state_dir(), provider.name)
    try:
        names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except OSError:
        return
    mark = SourceState(0, 0, 0, 0, crc32("\n".join(names).encode(errors="replace")), 0, 0)
    if not ledger.read_only and ledger.find_source(directory) != (None, mark):
        ledger.note_homes(provider.name, reported.homes(provider.name), directory, mark)
