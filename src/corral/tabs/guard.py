"""Guarding a start: until its provider confirms the session, and then whether the conversation is still there.

`python -m corral.tabs.guard TAB [FD …]` guards what was started in a terminal, and keeps the locks that the
descriptors hold meanwhile: the second of them for the first seconds only. It is a process of its own, since the
locks must outlive whoever asked: a command that ends, a server that is replaced.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from msgspec import structs

from corral.hooks.program.journal_file import directory_of
from corral.machine import places
from corral.machine.descriptors import is_ready
from corral.machine.watching import Change, DirectoryWatch, NoWatching
from corral.model.claim import ClaimKind
from corral.model.process import ProcessIdentity
from corral.model.selection import Selection
from corral.model.session import Session
from corral.model.verdict import Liveness, State
from corral.providers.registry import find_provider
from corral.sessions.survey import take_survey
from corral.sessions.watched_places import list_below
from corral.state.bindings import Bindings
from corral.state.launches import Launch, Launches, find_damage
from corral.tabs.listing import list_tabs

_T = TypeVar("_T")
_GUARD_SECONDS = 120.0
_TURN_SECONDS = 15.0
"""kimi 1.51 reads and writes its registry within the first seconds of a start (2026-11)."""
_SHORTEST_REST_SECONDS, _LONGEST_REST_SECONDS = 0.1, 3.0
"""The pause between two surveys, however much happens: a CLI that never confirms must not keep us busy."""
_RARE_SECONDS = 30.0
"""Some evidence makes no event: a lock on a file that is there already, a child's environment, a directory that is
not watched. So there is a look now and then, as the server's watcher has it."""
_BLIND_SECONDS = 3.0
"""The same where no directory can be watched."""
_SERVED = frozenset({State.LIVE, State.PENDING})


class Signs:
    """What may show that an agent has taken a session: our journal, the files of its home, and its own end."""

    def __init__(self, process: ProcessIdentity, directories: Iterable[str]) -> None:
        self._wanted: set[str] = set()
        self._watch: DirectoryWatch | None = None
        self._death: int | None = None
        with suppress(ProcessLookupError):
            self._death = os.pidfd_open(process.pid)
        with suppress(NoWatching):
            self._watch = DirectoryWatch()
        self.follow(directories)

    def follow(self, directories: Iterable[str]) -> None:
        """Watch these too; for one that does not exist yet, the nearest directory above it until it does."""
        self._wanted |= set(directories)
        for wanted in self._wanted:
            self._add_nearest(wanted)

    def wait(self, until: float, rest_seconds: float) -> bool:
        """Wait until something happens or may have been missed. False once the process has ended."""
        if self._death is None or is_ready(self._death, min(rest_seconds, max(0.0, until - time.monotonic()))):
            return False
        poll = select.poll()
        poll.register(self._death, select.POLLIN)
        if self._watch is not None:
            poll.register(self._watch.fd, select.POLLIN)
        rare = _RARE_SECONDS if self._watch is not None else _BLIND_SECONDS
        left = min(until - time.monotonic(), rare)
        ready = {fd for fd, _ in poll.poll(max(0.0, left) * 1000)}
        if self._watch is not None:
            for change in self._watch.read():
                if isinstance(change, Change) and change.is_new_directory:
                    path = os.path.join(change.directory, change.name)
                    if self._is_wanted(path):
                        self._add(path)
            self.follow(())
        return self._death not in ready

    def close(self) -> None:
        if self._death is not None:
            os.close(self._death)
        if self._watch is not None:
            self._watch.close()

    def _add_nearest(self, path: str) -> None:
        if not self._add(path) and path != "/":
            self._add_nearest(os.path.dirname(path))

    def _add(self, path: str) -> bool:
        """Watch it and what is below it; False when it does not exist. If the limit is reached, nothing is watched."""
        if self._watch is None or path in self._watch:
            return True
        try:
            if not self._watch.add(path):
                return False
            if self._is_wanted(path):
                for below in list_below(path):
                    self._watch.add(below)
        except NoWatching:
            self._watch.close()
            self._watch = None
        return True

    def _is_wanted(self, path: str) -> bool:
        return any(path == one or path.startswith(one + "/") for one in self._wanted)


def _await_word(look: Callable[[], _T | None], signs: Signs, seconds: float, turn: list[int]) -> _T | None:
    """What `look` returns as soon as it is not None; None when the process ended, or the time is over.

    `turn` is closed early.
    """
    begun = time.monotonic()
    deadline, rest = begun + seconds, _SHORTEST_REST_SECONDS
    while (found := look()) is None:
        now = time.monotonic()
        while turn and now - begun >= _TURN_SECONDS:
            os.close(turn.pop())
        until = min(deadline, begun + _TURN_SECONDS) if turn else deadline
        if now >= deadline or not signs.wait(until, rest):
            return None
        rest = min(rest * 1.5, _LONGEST_REST_SECONDS)
    return found


def guard_launch(launch: Launch, launches: Launches, turn: list[int]) -> None:
    """Wait until the provider confirms the session, then check what became of it. `turn` is closed early."""
    signs = Signs(launch.process, _list_places(launch.key.provider, launch.key.home))
    try:
        source = _await_word(lambda: _confirmed_source(launch, signs), signs, _GUARD_SECONDS, turn)
    finally:
        signs.close()
    problem = find_damage(launch)
    if problem is None and source == "startup" and launch.copies:
        copy = launch.copies[0].copy
        problem = f"the CLI began a new conversation instead of resuming this one; a copy of it is at {copy}"
    if source is not None or problem is not None:
        launches.write(structs.replace(launch, confirmed=source is not None and problem is None, problem=problem))


def _list_places(provider: str, home: str) -> list[str]:
    journal = directory_of(places.state_dir(), provider)
    os.makedirs(journal, mode=0o700, exist_ok=True)
    return [journal, home]


def _confirmed_source(launch: Launch, signs: Signs) -> str | None:
    """How the provider says the session began in our process (or a descendant of it); None until it says so.

    Empty when it says that the session is there, but not how it began.
    """
    from corral.machine.processes import ProcessTable

    survey = take_survey(Selection(id_prefix=launch.key.session_id), [find_provider(launch.key.provider)])
    signs.follow(place for one in survey.homes if one.path == launch.key.home for place in one.places.values())
    session = next((one for one in survey.sessions if one.key == launch.key), None)
    if session is None:
        return None
    signs.follow(_list_evidence(session))
    table = ProcessTable()
    sources: list[str] = []
    for judged in session.verdict.evidence:
        if judged.liveness is not Liveness.LIVE or judged.identity is None or judged.claim.kind is ClaimKind.LAUNCH:
            continue
        process = table.find(judged.identity.pid)
        line = [judged.identity.pid, *(one.pid for one in table.ancestors(process))] if process else []
        if launch.process.pid in line:
            sources.append(judged.claim.source or "")
    return max(sources, default=None)


def _list_evidence(session: Session) -> set[str]:
    """The directories of its files, and of what claims it now or did before."""
    found = {os.path.dirname(judged.claim.path) for judged in session.verdict.evidence if judged.claim.path}
    if session.record is not None:
        path = session.record.path
        found.add(path if os.path.isdir(path) else os.path.dirname(path))
    return found


def guard_tab(tab: str, turn: list[int]) -> None:
    """The same for a program in a terminal; then its agent's process is noted, as soon as the provider names it."""
    bindings, launches = Bindings(places.state_dir()), Launches(places.state_dir())
    binding = bindings.find(tab)
    if binding is None or (child := binding.child_process) is None:
        return
    launch = next((one for one in launches.read_all() if one.process == child), None)
    if launch is not None:
        try:
            guard_launch(launch, launches, turn)
        except Exception as error:
            _note_unchecked(launch, launches, error)
            raise
    provider = find_provider(binding.provider)

    def look() -> bool | None:
        list_tabs([tab], take_survey(Selection(states=_SERVED), [provider]))  # looking notes the process
        found = bindings.find(tab)
        return True if found is None or found.agent is not None else None

    signs = Signs(child, _list_places(binding.provider, binding.home))
    try:
        _await_word(look, signs, _GUARD_SECONDS if launch is None else 0.0, turn)
    finally:
        signs.close()


def _note_unchecked(launch: Launch, launches: Launches, error: Exception) -> None:
    problem = f"corral could not check the session after the start: {error!r}"
    launches.write(structs.replace(launch, problem=problem))


# --- how a guard is started


def spawn_guard(tab: str, locks: list[int]) -> None:
    """For a terminal. From now on the guard holds the locks too."""
    subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-m", "corral.tabs.guard", tab, *map(str, locks)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        pass_fds=locks,
        start_new_session=True,
    )


def fork_guard(launch: Launch, launches: Launches, locks: list[int]) -> None:
    """A small process of its own that keeps the locks until the provider confirms the session, then checks it.

    Forked twice: the agent must not get a child that it never started.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        while locks:
            os.close(locks.pop())
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        guard_launch(launch, launches, locks[1:])
    except Exception as error:  # noqa: BLE001 - it must not run on as a second corral, nor fail unseen
        _note_unchecked(launch, launches, error)
    finally:
        os._exit(0)


if __name__ == "__main__":
    guard_tab(sys.argv[1], [int(fd) for fd in sys.argv[2:]][1:])
