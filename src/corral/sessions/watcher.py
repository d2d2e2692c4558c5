"""What changes, as it happens: directory watches and pidfds wake it, a fresh survey says what is true now."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from corral.machine.watching import ExitWatch, NewProcesses
from corral.model.change import AgentsChanged, FollowedEnded, Touched, Troubles, WatchEvent
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.model.selection import NOTEWORTHY, Selection
from corral.model.session import Degraded, Session, Survey
from corral.model.verdict import State
from corral.providers.contract import Provider
from corral.providers.registry import all_providers
from corral.sessions.decide.changes import find_agent_change, find_changes, find_served
from corral.sessions.survey import take_survey
from corral.sessions.watched_places import WatchedPlaces
from corral.sidecar.processes import read_identity

_GATHER_SECONDS = 0.005
"""One write is often several events; what comes within this time is one change."""
_REST = 3.0
"""After a survey comes a pause this many times as long: a busy agent costs a quarter of a core at most."""
_FULL_REST_SECONDS = 1.0
_POLL_SECONDS = 30.0
"""A survey now and then finds what no watch shows: a shell that becomes an agent by exec."""
_BLIND_POLL_SECONDS = 4.0
_AFTER_FAILURE_SECONDS = 2.0
_POLLS_PER_FULL = 20
"""One poll in this many is a full survey: it finds what vanished without an event."""


class _Unlisted(Exception):
    """A provider failed to list all sessions: those that were known are not gone."""


class Watcher:
    """Runs in a thread of its own, so that surveys never overlap; `on_events` is called there."""

    def __init__(
        self,
        on_events: Callable[[Sequence[WatchEvent]], None],
        *,
        also: Iterable[str] = (),
        providers: Sequence[Provider] | None = None,
    ) -> None:
        self._on_events = on_events
        self._providers = {one.name: one for one in (all_providers() if providers is None else providers)}
        self._parts: dict[str, Survey] = {}
        self._sessions: dict[SessionKey, Session] = {}
        self._served_last: dict[ProcessIdentity, frozenset[SessionKey]] = {}
        """By running process: the sessions that it served last."""
        self._places = WatchedPlaces(self._providers, also)
        self._exits: dict[int, tuple[int, str]] = {}
        self._new_processes = NewProcesses()
        self._followed = ExitWatch()
        self._to_follow: frozenset[ProcessIdentity] | None = None
        """Set by another thread until the watching one has taken it."""
        self._agents = AgentsChanged(unattributed=(), no_session_yet=())
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._asked: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = False
        self._troubles: tuple[Degraded, ...] = ()
        self._failed: dict[str, Degraded] = {}
        """Providers whose last survey failed."""
        self._full_after: dict[str, float] = {}
        self._quick_after: dict[str, float] = {}

    # --- for other threads

    def start(self) -> None:
        """Take the first survey, then go on in the background."""
        for name in self._providers:
            self._survey(name, None)
        self._sessions = self._merge()
        self._agents = self._list_agents()
        self._watch_exits()
        self._troubles = self._all_troubles()
        threading.Thread(target=self.run, name="watch", daemon=True).start()

    def look(self) -> Survey:
        """The newest survey of all providers."""
        with self._lock:
            parts = list(self._parts.values())
            degraded = self._troubles
        return Survey(
            hostname=parts[0].hostname if parts else "",
            taken_at=max((part.taken_at for part in parts), default=0.0),
            sessions=tuple(session for part in parts for session in part.sessions),
            counts=dict(sum((Counter(part.counts) for part in parts), Counter[State]())),
            unattributed=tuple(one for part in parts for one in part.unattributed),
            no_session_yet=tuple(one for part in parts for one in part.no_session_yet),
            homes=tuple(one for part in parts for one in part.homes),
            degraded=degraded,
        )

    def ask(self, provider: str | None = None) -> None:
        """Look again soon: at one provider's sessions, or at all."""
        with self._lock:
            self._asked |= {provider} if provider else set(self._providers)
        self._wake()

    def follow(self, processes: Iterable[ProcessIdentity]) -> None:
        """Report the end of these processes, instead of those named before."""
        with self._lock:
            self._to_follow = frozenset(processes)
        self._wake()

    def stop(self) -> None:
        self._stopped = True
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"w")
        except BlockingIOError:
            pass  # it is being woken already

    # --- the loop

    def run(self) -> None:
        next_poll = time.monotonic() + self._poll_seconds()
        polls = 0
        quick: dict[str, set[str]] = {}
        full: set[str] = set()
        while not self._stopped:
            woken = self._wait(self._due(quick, full, next_poll))
            if self._stopped:
                break
            self._note(woken, quick, full)
            now = time.monotonic()
            if now >= self._new_processes.due:
                self._note_new(quick)
            if now >= next_poll:
                next_poll = now + self._poll_seconds()
                polls += 1
                for name in self._providers:
                    quick.setdefault(name, set())
                if self._places.fd is None or polls % _POLLS_PER_FULL == 0:
                    full |= set(self._providers)
            self._catch_up(quick, full, now)

    def _wait(self, until: float) -> set[int]:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if self._places.fd is not None:
            poll.register(self._places.fd, select.POLLIN)
        for fd in (*(fd for fd, _ in self._exits.values()), *self._followed.fds):
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000)}
        if ready == {self._places.fd}:
            time.sleep(_GATHER_SECONDS)
        return ready

    def _note(self, woken: set[int], quick: dict[str, set[str]], full: set[str]) -> None:
        """What has to be looked at: `quick` with the ids concerned, `full` where anything may have changed."""
        if self._wake_read in woken:
            os.read(self._wake_read, 4096)
            with self._lock:
                full |= self._asked
                self._asked = set()
                to_follow, self._to_follow = self._to_follow, None
            if to_follow is not None and self._followed.follow(to_follow):
                self._on_events([FollowedEnded()])
        if self._followed.take(woken):
            self._on_events([FollowedEnded()])
        died = self._note_exits(woken)
        touched = self._places.read()
        for directory in touched.directories:
            self._on_events([Touched(directory)])
        for name, ids in touched.quick.items():
            quick.setdefault(name, set()).update(ids)
        full |= touched.full
        self._report_exits(died, quick)

    def _note_new(self, quick: dict[str, set[str]]) -> None:
        """A new agent writes nothing that is watched until it has a session: so processes are compared."""
        table = self._new_processes.look()
        for process in table or ():
            for name, provider in self._providers.items():
                try:
                    is_agent = table is not None and provider.recognise(process, table) is not None
                except Exception:  # noqa: BLE001 - the survey meets it again, and reports it
                    is_agent = True
                if is_agent:
                    self._new_processes.settle(process)
                    quick.setdefault(name, set())

    def _note_exits(self, woken: set[int]) -> dict[str, set[str]]:
        """By provider: the ids that processes served which have ended."""
        died: dict[str, set[str]] = {}
        for pid, (fd, name) in list(self._exits.items()):
            if fd in woken:
                os.close(fd)
                del self._exits[pid]
                served = {one.session_id for one in self._sessions.values() if pid in one.pids}
                died.setdefault(name, set()).update(served)
        return died

    def _report_exits(self, died: dict[str, set[str]], quick: dict[str, set[str]]) -> None:
        """Report the end of a process before the disk is read again.

        What a process wrote was seen before its end: if nothing of its sessions was written, they are on disk
        as they were last seen, and only who serves them has changed. The look that follows makes sure.
        """
        for name, ids in died.items():
            if self._places.fd is not None and ids and ids.isdisjoint(quick.get(name, ())):
                self._try_survey(name, lambda name=name: self._survey_served(name))
                self._publish()
            else:
                self._quick_after.pop(name, None)
            quick.setdefault(name, set()).update(ids)

    def _due(self, quick: dict[str, set[str]], full: set[str], next_poll: float) -> float:
        waits = [self._quick_after.get(name, 0.0) for name in quick]
        waits += [self._full_after.get(name, 0.0) for name in full]
        return min([next_poll, self._new_processes.due, *waits])

    def _catch_up(self, quick: dict[str, set[str]], full: set[str], now: float) -> None:
        did = False
        for name in list(full):
            if now >= self._full_after.get(name, 0.0):
                full.discard(name)
                quick.pop(name, None)
                self._try_survey(name, lambda name=name: self._survey(name, None))
                did = True
        for name in list(quick):
            if now >= self._quick_after.get(name, 0.0):
                ids = quick.pop(name)
                self._try_survey(name, lambda name=name, ids=ids: self._survey(name, ids))
                did = True
        if did:
            self._publish()

    def _poll_seconds(self) -> float:
        return _POLL_SECONDS if self._places.fd is not None else _BLIND_POLL_SECONDS

    # --- surveys

    def _try_survey(self, name: str, survey: Callable[[], None]) -> None:
        """A survey that fails is reported and repeated: otherwise views would show old facts as if they were new."""
        try:
            survey()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other providers' sessions are not to blame
            self._failed[name] = Degraded(provider=name, step="look again", reason=f"{error!r}; corral will try again")
            self._full_after[name] = time.monotonic() + _AFTER_FAILURE_SECONDS
            self.ask(name)

    def _survey(self, name: str, ids: set[str] | None) -> None:
        """Survey one provider again: all of it, or what is noteworthy and the given ids."""
        begun = time.monotonic()
        provider = self._providers[name]
        old = self._parts.get(name)
        if ids is None or old is None:
            part = take_survey(Selection(), [provider])
            if part.unlisted:
                raise _Unlisted(next((one.reason for one in part.degraded if one.provider == name), ""))
            if self._places.follow(name, part):
                self.ask(name)
        else:
            noted = {one.session_id for one in old.sessions if one.state in NOTEWORTHY} | ids
            part = take_survey(Selection(states=NOTEWORTHY, besides=frozenset(noted)), [provider])
            rest = [one for one in old.sessions if one.session_id not in noted]
            found = {one.key for one in part.sessions}
            part = structs.replace(part, sessions=(*part.sessions, *(one for one in rest if one.key not in found)))
            self._places.follow_live(name, part)
        with self._lock:
            self._parts[name] = part
        ended = time.monotonic()
        if ids is None:
            self._failed.pop(name, None)  # not after less: that has not seen what the failed one was for
            self._full_after[name] = ended + max(_FULL_REST_SECONDS, _REST * (ended - begun))
        else:
            self._quick_after[name] = ended + _REST * (ended - begun)

    def _survey_served(self, name: str) -> None:
        """Survey only the processes of one provider: its sessions are taken as they were last read from disk."""
        old = self._parts[name]
        noted = [one for one in old.sessions if one.state in NOTEWORTHY]
        ids = frozenset(one.session_id for one in noted)
        records = [one.record for one in noted if one.record is not None]
        part = take_survey(Selection(states=NOTEWORTHY, besides=ids), [self._providers[name]], remembered=records)
        counts = Counter(old.counts)
        counts.subtract(one.state for one in noted)
        counts.update(part.counts)
        rest = (one for one in old.sessions if one.state not in NOTEWORTHY)
        with self._lock:
            self._parts[name] = structs.replace(
                part,
                sessions=(*(one for one in part.sessions if one.session_id in ids), *rest),
                counts={state: count for state, count in counts.items() if count},
                degraded=old.degraded,
                skipped=old.skipped,
            )

    def _merge(self) -> dict[SessionKey, Session]:
        return {session.key: session for part in self._parts.values() for session in part.sessions}

    def _publish(self) -> None:
        sessions = self._merge()
        events: list[WatchEvent] = [*find_changes(self._sessions, sessions, self._served_last)]
        self._served_last = {one: keys for one, keys in self._served_last.items() if read_identity(one.pid) == one}
        self._served_last |= find_served(self._sessions) | find_served(sessions)
        self._sessions = sessions
        if (agents := find_agent_change(self._agents, self._list_agents())) is not None:
            self._agents = agents
            events.append(agents)
        troubles = self._all_troubles()
        if troubles != self._troubles:
            with self._lock:
                self._troubles = troubles
            events.append(Troubles(troubles))
        if events:
            self._on_events(events)
        self._watch_exits()

    def _list_agents(self) -> AgentsChanged:
        parts = self._parts.values()
        return AgentsChanged(
            unattributed=tuple(one for part in parts for one in part.unattributed),
            no_session_yet=tuple(one for part in parts for one in part.no_session_yet),
        )

    def _all_troubles(self) -> tuple[Degraded, ...]:
        found = [one for part in self._parts.values() for one in part.degraded]
        return tuple(dict.fromkeys([*found, *self._failed.values(), *self._places.troubles()]))

    def _watch_exits(self) -> None:
        """A pidfd for every agent that runs: its end is pushed, not polled."""
        if not hasattr(os, "pidfd_open"):
            return
        running = {
            one.pid: session.provider for session in self._sessions.values() for one in session.verdict.processes
        }
        for part in self._parts.values():
            running |= {one.pid: one.provider for one in (*part.unattributed, *part.no_session_yet)}
        for pid in [pid for pid in self._exits if pid not in running]:
            os.close(self._exits.pop(pid)[0])
        for pid, name in running.items():
            if pid not in self._exits:
                try:
                    self._exits[pid] = (os.pidfd_open(pid), name)
                except OSError:
                    self.ask(name)  # it died meanwhile, or there are no descriptors left: then the poll will see
