"""What agents reported of their sessions through our hooks: since when, with which model, in which home."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import NamedTuple

from corral.hooks.journal_file import directory_of


class _Start(NamedTuple):
    at: float
    model: str | None


class ToldSessions:
    """The journals of this user, read once when first asked."""

    def __init__(self, state_dir: str) -> None:
        self._state_dir = state_dir
        self._starts: dict[str, dict[tuple[str, str], list[_Start]]] = {}
        self._homes: dict[str, set[str]] = {}

    def homes(self, provider: str) -> set[str]:
        self._load(provider)
        return self._homes[provider]

    def find_begin(self, provider: str, home: str, session_id: str) -> float | None:
        """When it was first reported, in epoch seconds. What it holds from before that can be a copy."""
        starts = self._load(provider).get((home, session_id))
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
