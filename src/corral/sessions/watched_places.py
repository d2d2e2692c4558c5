"""Which directories to watch for which sessions: those with sessions and claims, and those above them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from corral.hooks.program.journal_file import directory_of
from corral.machine import places
from corral.machine.watching import DirectoryWatch, NoWatching, Overflow
from corral.model.selection import NOTEWORTHY
from corral.model.session import Degraded, Survey

_REPORT_LOSS_SECONDS = 60.0
_DEPTH = 3
_MOST_BELOW = 200
"""How many directories are watched at once below one that just appeared, or below a home without sessions."""


class Touched(Struct):
    """What has to be looked at, by provider: ids that a change names, or everything."""

    quick: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    full: set[str] = field(default_factory=set[str])
    directories: set[str] = field(default_factory=set[str])


class WatchedPlaces:
    """What the surveys found is what is watched. Where nothing can be watched, `troubles` says so."""

    def __init__(self, providers: Iterable[str], also: Iterable[str]) -> None:
        self._problem: str | None = None
        self._lost_at: float | None = None
        self._owners: dict[str, str] = {}
        """Directories that concern a provider as a whole."""
        self._also = set(also)
        self._sessions: dict[str, tuple[str, str]] = {}
        """The path of a session: provider and id."""
        try:
            self._watch: DirectoryWatch | None = DirectoryWatch()
        except NoWatching as error:
            self._watch, self._problem = None, str(error)
        launches = os.path.join(places.state_dir(), "launches")
        for directory in (*self._also, launches, *(directory_of(places.state_dir(), name) for name in providers)):
            os.makedirs(directory, mode=0o700, exist_ok=True)
            self._add(directory)
        for name in providers:
            self._owners[directory_of(places.state_dir(), name)] = name
        self._all = {launches: tuple(providers)}
        self._person = os.path.expanduser("~")
        """The person's home: a CLI makes its own home there when it first runs."""
        self._add(self._person)

    @property
    def fd(self) -> int | None:
        return self._watch.fd if self._watch is not None and self._problem is None else None

    def troubles(self) -> list[Degraded]:
        reasons: list[str] = []
        if self._problem is not None:
            reasons.append(f"{self._problem}; so all sessions are checked every few seconds")
        if self._lost_at is not None and time.monotonic() - self._lost_at < _REPORT_LOSS_SECONDS:
            reasons.append("the kernel dropped events within the last minute; so all sessions were checked again")
        return [Degraded(provider="corral", step="watch directories", reason=reason) for reason in reasons]

    def follow(self, provider: str, survey: Survey) -> bool:
        """After a survey of all sessions of this provider. True when something is watched that was not before:
        nothing saw what happened there between the survey and now, so that another look is due.
        """
        before = len(self._watch or ())
        for path in [path for path, (name, _) in self._sessions.items() if name == provider]:
            del self._sessions[path]
        for home in survey.homes:
            for place in (home.path, *home.places.values()):
                self._own(place, provider)
        seen: set[str] = set()
        roots = {path for home in survey.homes for path in (home.path, *home.places.values())}
        for session in survey.sessions:
            if session.record is None:
                continue
            path = session.record.path
            self._sessions[path] = provider, session.session_id
            seen.update(_up_to(path, roots))
        for path in seen:
            self._own(path, provider)
        for root in roots:
            if not any(path.startswith(root + "/") for path in seen):
                for path in list_below(root):
                    self._own(path, provider)
        self.follow_live(provider, survey)
        return len(self._watch or ()) > before

    def follow_live(self, provider: str, survey: Survey) -> None:
        """What is inside the directories of served sessions, and where their claims are."""
        for session in survey.sessions:
            if session.state not in NOTEWORTHY or session.verdict.maybe_pids:
                continue
            for judged in session.verdict.evidence:
                self._own(os.path.dirname(judged.claim.path), provider)
            if session.record is not None and session.record.path not in self._sessions:
                self._sessions[session.record.path] = provider, session.session_id
            if session.record is not None and session.verdict.processes:
                for path in (session.record.path, *list_below(session.record.path)):
                    self._own(path, provider)

    def read(self) -> Touched:
        """What has happened since the last call."""
        touched = Touched()
        if self._watch is None:
            return touched
        for change in self._watch.read():
            if isinstance(change, Overflow):
                self._lost_at = time.monotonic()
                touched.full |= set(self._owners.values())
                touched.directories |= self._also
                continue
            if change.directory in self._also:
                touched.directories.add(change.directory)
                continue
            if change.directory == self._person and change.directory not in self._owners:
                if change.is_new_directory:
                    touched.full |= set(*self._all.values())
                continue
            names = self._all.get(change.directory) or (self._owners.get(change.directory),)
            path = os.path.join(change.directory, change.name)
            for name in names:
                if name is None:
                    continue
                ids = touched.quick.setdefault(name, set())
                session = self._find_session(path)
                if session is not None:
                    ids.add(session[1])
                elif not self._is_claim(change.directory, change.name):
                    touched.full.add(name)
                if change.is_new_directory:
                    for below in (path, *list_below(path)):
                        self._own(below, name)
        return touched

    def _is_claim(self, directory: str, name: str) -> bool:
        """Whether it is a journal or a launch: that changes who serves a session, and no session on disk."""
        return directory in self._all or directory.startswith(places.state_dir())

    def _find_session(self, path: str) -> tuple[str, str] | None:
        while len(path) > 1:
            if (found := self._sessions.get(path)) is not None:
                return found
            path = os.path.dirname(path)
        return None

    def _own(self, directory: str, provider: str) -> None:
        if self._add(directory):
            self._owners.setdefault(directory, provider)

    def _add(self, directory: str) -> bool:
        if self._watch is None or self._problem is not None:
            return False
        try:
            return self._watch.add(directory)
        except NoWatching as error:
            self._problem = str(error)
            return False


def _up_to(path: str, roots: set[str]) -> Iterator[str]:
    """The directories from a session up to its home."""
    while path not in roots and len(path) > 1:
        yield path
        path = os.path.dirname(path)


def list_below(path: str) -> list[str]:
    """The directories below one, but not too deep and not too many."""
    found: list[str] = []
    level = [path]
    for _ in range(_DEPTH):
        inner: list[str] = []
        for one in level:
            try:
                with os.scandir(one) as entries:
                    inner += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
        found += inner
        level = inner
        if len(found) > _MOST_BELOW:
            break
    return found[:_MOST_BELOW]
