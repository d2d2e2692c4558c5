"""What the server knows and does: the watched sessions, the tabs, the events of both; blocking work runs in threads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

import msgspec

from corral.errors import CorralError
from corral.machine import places
from corral.model.change import (
    AgentsChanged,
    Change,
    FollowedEnded,
    SessionChange,
    Switched,
    Touched,
    Troubles,
    WatchEvent,
)
from corral.model.key import SessionKey
from corral.model.refusal import RefusedError, refuse
from corral.model.restore import Refusal
from corral.model.session import Session, Survey
from corral.model.tab import Progress
from corral.model.usage_report import UsageRow
from corral.server.event_stream import EventStream
from corral.server.messages import (
    ListedSession,
    ProviderReport,
    SessionList,
    SpentBySession,
    SpentOnDay,
    SpentToday,
)
from corral.sessions import list_provider_facts, list_state_words, report_session, session_ref, watch_sessions
from corral.tabs import keep_tabs, kill_session
from corral.usage import sum_spending
from corral.version import __version__

if TYPE_CHECKING:
    from corral.sessions import ProviderFacts
    from corral.tabs import TabEvent

_T = TypeVar("_T")
_THREADS = 8
_TAB_PAUSE_SECONDS = 0.15
_TAB_LOOK_SECONDS = 20.0
"""Tabs are looked at again after so long, whatever was heard: what could not be noted at one look is noted then."""
_AFTER_FAILURE_SECONDS = 5.0
_MOST_CHANGES = 200
"""For more changes at once the page is told to fetch the list, which costs less than so many events."""
_DAYS = 14
_PAUSE_SECONDS = 20.0
_FIRST_PAUSE_SECONDS = 1.0


class Service:
    """One per server. Its coroutines belong to the event loop; the watcher and the tabs have threads of their own."""

    def __init__(self, events: EventStream) -> None:
        self.events = events
        log_path = os.path.join(places.state_dir(), "server", "log.jsonl")
        self.tabs = keep_tabs(lambda: self.watcher.look(), log_path, self._on_tabs, self._on_progress)
        self.watcher = watch_sessions(self._on_watch, also=self.tabs.watched_places)
        self.layout, self.log = self.tabs.layout, self.tabs.log
        self.spending = Spending(self._on_spending, lambda why: self.log.write("usage_not_read", message=why))
        self._pool = ThreadPoolExecutor(_THREADS, "request")
        self._loop = asyncio.get_running_loop()
        self._stale_tabs = threading.Event()
        self._stopped = False
        self._refs: dict[str, Session] = {}
        self._providers: tuple[ProviderReport, ...] = ()

    async def start(self) -> None:
        """Ready when the first survey is taken and the tabs are known."""
        await self.run(self.watcher.start)
        self._note_sessions(self.watcher.look())
        await self.run(self.tabs.refresh)
        self.watcher.follow(self.tabs.holders)
        await self.run(self.refresh_providers)
        threading.Thread(target=self._follow_tabs, name="tabs", daemon=True).start()
        self.spending.start()

    def stop(self) -> None:
        """Terminals go on without it."""
        self._stopped = True
        self._stale_tabs.set()
        self.watcher.stop()
        self.tabs.stop()
        self.spending.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Blocking work, off the event loop."""
        return await self._loop.run_in_executor(self._pool, work)

    # --- what is asked

    def list_sessions(self) -> SessionList:
        event = self.events.newest  # before the look: what happens meanwhile is sent again, never lost
        survey = self.watcher.look()
        return SessionList(
            host=survey.hostname,
            generated_at=survey.taken_at,
            sessions=tuple(self.describe(one) for one in survey.sessions),
            unattributed=survey.unattributed,
            no_session_yet=survey.no_session_yet,
            counts={str(state): count for state, count in sorted(survey.counts.items())},
            degraded=survey.degraded,
            event=event,
            providers=self._providers,
            usage_today=self.spending.today,
            user_home=os.path.expanduser("~"),
            version=__version__,
            demo=places.demo_dir() is not None,
            states=list_state_words(),
        )

    def find(self, ref: str) -> Session:
        """Raises RefusedError (404)."""
        session = self._refs.get(ref)
        if session is None:
            raise refuse(Refusal.NO_SUCH_SESSION, "there is no such session (any more)")
        return session

    def describe(self, session: Session) -> ListedSession:
        ref = session_ref(session.key)
        dismissed = ref in self.layout.layout.dismissed
        return ListedSession(
            **msgspec.structs.asdict(report_session(session, dismissed=dismissed)),
            ref=ref,
            tab=self.tabs.tab_of(ref),
            dismissed=dismissed,
            usage=self.spending.of(session.key),
        )

    @property
    def providers(self) -> tuple[ProviderReport, ...]:
        return self._providers

    def refresh_providers(self) -> None:
        self._providers = tuple(_report_provider(one) for one in list_provider_facts())

    def end(self, session: Session) -> None:
        """End a session step by step, in the background; the log says what came of it."""

        def run() -> None:
            try:
                ended = [one.by for one in kill_session(session, lambda text: None)]
                self.log.write("session_ended", session_id=session.session_id, by=",".join(filter(None, ended)))
            except RefusedError as error:
                refused = error.refused
                self.log.write(
                    "session_not_ended",
                    session_id=session.session_id,
                    reason=refused.reason,
                    message=refused.message,
                )

        threading.Thread(target=run, name="end", daemon=True).start()

    # --- what happens

    def publish(self, name: str, body: object) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self.events.publish, name, body)

    def _on_watch(self, events: Sequence[WatchEvent]) -> None:
        changed = [event for event in events if isinstance(event, SessionChange)]
        for event in changed:
            ref = session_ref(event.session.key)
            if event.change is Change.GONE:
                self._refs.pop(ref, None)
            else:
                self._refs[ref] = event.session
        many = len(changed) > _MOST_CHANGES
        if many:
            self.publish("resync", {"reason": f"{len(changed)} sessions changed at once"})
        for event in events:
            match event:
                case SessionChange():
                    if not many:
                        self.publish("session", {"change": event.change, "session": self.describe(event.session)})
                case Switched():
                    previous, current = session_ref(event.previous), session_ref(event.current)
                    self.publish("switched", {"pid": event.pid, "from": previous, "to": current})
                case AgentsChanged():
                    self.publish("agents", event)
                    self._stale_tabs.set()
                case Troubles():
                    self.publish("degraded", {"degraded": event.degraded})
                case Touched() | FollowedEnded():
                    self._stale_tabs.set()
        if changed:
            self._stale_tabs.set()
            self.spending.ask()

    def _on_tabs(self, events: Sequence[TabEvent]) -> None:
        for change, report in events:
            self.publish("tab", {"change": change, "tab": report})

    def _on_progress(self, progress: Progress) -> None:
        self.publish("restore", progress)

    def _on_spending(self, changed: set[str]) -> None:
        sessions = {ref: self.spending.of(one.key) for ref, one in self._refs.copy().items() if str(one.key) in changed}
        self.publish("usage", {"usage_today": self.spending.today, "sessions": sessions})

    def _follow_tabs(self) -> None:
        """Looks at the tabs again after each change that concerns them, a few times a second at most."""
        while not self._stopped:
            self._stale_tabs.wait(_TAB_LOOK_SECONDS)
            self._stale_tabs.clear()
            if self._stopped:
                return
            try:
                self.tabs.refresh()
                self.watcher.follow(self.tabs.holders)
            except Exception as error:  # noqa: BLE001 - it is logged, and tried again: tabs must not stay as they were
                self.log.write("tabs_not_read", message=repr(error))
                self._stale_tabs.set()
                threading.Event().wait(_AFTER_FAILURE_SECONDS)
            threading.Event().wait(_TAB_PAUSE_SECONDS)

    def _note_sessions(self, survey: Survey) -> None:
        self._refs = {session_ref(session.key): session for session in survey.sessions}


def _report_provider(facts: ProviderFacts) -> ProviderReport:
    capabilities = facts.provider.capabilities
    version = facts.program.version if facts.program else None
    return ProviderReport(
        name=facts.provider.name,
        title=capabilities.title,
        installed=facts.program is not None and facts.program.problem is None,
        version=version,
        restore=capabilities.restore,
        needs_hooks=capabilities.needs_hooks,
        hooks=facts.hooks,
        picks_id=capabilities.picks_id,
        proven=version is not None and version in capabilities.proven_versions,
    )


# --- what was spent


class Spending:
    """What was spent, per session and day. Logs are read only after a change, with pauses: money is not urgent.

    `on_change` gets the names of the sessions whose sums changed, `on_problem` the reason why there are none.
    """

    def __init__(self, on_change: Callable[[set[str]], None], on_problem: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._on_problem = on_problem
        self._asked = threading.Event()
        self._stopped = threading.Event()
        self._by_session: dict[str, SpentBySession] = {}
        self.today: SpentToday | None = None

    def start(self) -> None:
        self._asked.set()
        threading.Thread(target=self._follow, name="spending", daemon=True).start()

    def ask(self) -> None:
        self._asked.set()

    def stop(self) -> None:
        self._stopped.set()
        self._asked.set()

    def of(self, key: SessionKey) -> SpentBySession | None:
        return self._by_session.get(str(key))

    def _follow(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopped.wait(pause):
            pause = _PAUSE_SECONDS
            self._asked.wait()
            self._asked.clear()
            if self._stopped.is_set():
                return
            before = self.today, self._by_session
            try:
                self._read()
            except (CorralError, OSError) as error:
                self._on_problem(str(error))  # the page shows no money then; `corral usage` says why
            if (self.today, self._by_session) != before:
                self._on_change({name for name, spent in self._by_session.items() if before[1].get(name) != spent})

    def _read(self) -> None:
        spent = sum_spending(_DAYS)
        todays = {row.key["session"]: row for row in spent.today}
        self._by_session = {
            name: _by_session(row, todays.get(name))
            for row in spent.sessions
            if (name := row.key["session"]) is not None
        }
        self.today = _today(
            spent.midnight, {row.key["day"] or "": row for row in spent.days}, [loss.say() for loss in spent.losses]
        )


def _today(midnight: datetime, rows: dict[str, UsageRow], losses: Sequence[str]) -> SpentToday | None:
    if not rows and not losses:
        return None
    names = [(midnight - timedelta(days=back)).strftime("%Y-%m-%d") for back in range(_DAYS - 1, -1, -1)]
    days = tuple(
        SpentOnDay(day=name, cost=_money(rows.get(name)), tokens=rows[name].tokens.total if name in rows else 0)
        for name in names
    )
    currency = next((row.cost.currency for row in rows.values()), "USD")
    return SpentToday(cost=days[-1].cost, currency=currency, tokens=days[-1].tokens, days=days, losses=tuple(losses))


def _by_session(row: UsageRow, today: UsageRow | None) -> SpentBySession:
    return SpentBySession(
        tokens=row.tokens.total,
        cost=_money(row),
        currency=row.cost.currency,
        today_tokens=today.tokens.total if today else 0,
        today_cost=_money(today),
        assumed=bool(row.cost.assumed_events),
    )


def _money(row: UsageRow | None) -> str | None:
    amount: Decimal | None = row.cost.amount if row else None
    return None if amount is None else f"{amount:.4f}".rstrip("0").rstrip(".") if amount else "0"
