"""The tabs as a view shows them, kept up to date and in order; and the queue that brings many back, a few at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import msgspec
from msgspec import Struct, structs

from corral.errors import NotReachable
from corral.machine.event_log import EventLog
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.model.refusal import RefusalReport, RefusedError, report_refusal
from corral.model.restore import Refusal, Refused
from corral.model.session import Session, Survey
from corral.model.tab import Agree, Agreement, Opened, Progress, TabView
from corral.model.terminal import Standing
from corral.model.verdict import State
from corral.providers.contract import Provider
from corral.providers.registry import find_provider
from corral.sessions.naming import session_ref
from corral.sidecar.files import Unreadable
from corral.state.bindings import Binding
from corral.state.private_file import read_record, write_record
from corral.tabs.listing import Tab, forget_tab, list_tabs, watched_places
from corral.tabs.restore import Restorer, plan_for
from corral.tabs.start import Size
from corral.terminals.client import Client
from corral.terminals.directory import say_end, terminals_dir

_AT_ONCE = 3
_SIZE: Size = (80, 24)
_ABOUT_PROCESSES = frozenset({Refusal.ALREADY_LIVE, Refusal.CLAIMED_ELSEWHERE, Refusal.MAYBE_OPEN})
"""Refusals about the processes of a session: not kept, since the session itself says what is true now."""


_ASKED_BEFORE = Agreement(trust=True)
"""A tab that comes back was opened there before."""

TabEvent = tuple[str, TabView]


class TabKeeper:
    """Reads what is true, and keeps only what a person asked for. Its calls block: use threads."""

    def __init__(
        self,
        look: Callable[[], Survey],
        layout: LayoutFile,
        log: EventLog,
        on_tabs: Callable[[Sequence[TabEvent]], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._look = look
        self.layout = layout
        self.log = log
        self._on_tabs = on_tabs
        self._on_progress = on_progress
        self._restorer = Restorer()
        self._lock = threading.RLock()
        self._reports: dict[str, TabView] = {}
        self.watched_places = watched_places()
        """Directories in which something changes when tabs do."""
        self.holders: frozenset[ProcessIdentity] = frozenset()
        """The holders of all terminals: when one ends, nothing on disk says so."""
        self._busy: dict[str, str] = {}
        """Tabs that are queued or being resumed."""
        self._refusals: dict[str, RefusalReport] = {}
        """By tab: why the last try was refused."""
        self._sizes: dict[str, Size] = {}
        self._last: dict[str, Tab] = {}
        """Tabs without a terminal, with the session that they had last, or why none is known."""
        self._pool = ThreadPoolExecutor(_AT_ONCE, "restore")
        self._one_at_a_time: dict[str, threading.Lock] = {}
        self._progress = Progress(done=0, total=0, failed=0)
        if layout.problem is not None:
            log.write("layout_not_read", message=layout.problem)

    def reports(self) -> list[TabView]:
        with self._lock:
            return sorted(self._reports.values(), key=lambda one: one.order)

    def find(self, tab: str) -> TabView | None:
        with self._lock:
            return self._reports.get(tab)

    def tab_of(self, ref: str) -> str | None:
        with self._lock:
            return next((one.tab for one in self._reports.values() if one.ref == ref), None)

    def refresh(self) -> None:
        """Look again, and report what is different."""
        with self._lock:
            found = {one.tab: one for one in self._describe_all()}
            events: list[TabEvent] = []
            for tab, report in found.items():
                if tab not in self._reports:
                    events.append(("opened", report))
                elif report != self._reports[tab]:
                    events.append(("changed", report))
            events += [("closed", report) for tab, report in self._reports.items() if tab not in found]
            self._reports = found
        if events:
            self._on_tabs(events)

    def open_tab(self, tab: str, size: Size = _SIZE, *, anyway: bool = False, agree: Agree = _ASKED_BEFORE) -> Opened:
        """Raises RefusedError; the tab shows it, and it is logged."""
        self._mark(tab, "resuming")
        with self._lock:
            last = self._last.get(tab)
        try:
            opened = self._restorer.open_tab(tab, size=size, anyway=anyway, agree=agree, last=last)
        except RefusedError as error:
            self._note_refusal(tab, error.refused)
            raise
        except Exception as error:
            refused = Refused(reason=Refusal.BUG, message=f"it could not be restored: {error!r}")
            self._note_refusal(tab, refused)
            raise RefusedError(refused) from error
        finally:
            self._mark(tab, None)
        self._show(opened, size)
        return opened

    def open_session(
        self, session: Session, *, anyway: bool, agree: Agree, size: Size, attach_only: bool = False
    ) -> Opened:
        """Raises RefusedError; it is logged."""
        try:
            opened = self._restorer.open_session(
                session, size=size, anyway=anyway, agree=agree, attach_only=attach_only
            )
        except RefusedError as error:
            self.log.write(
                "restore_refused",
                provider=session.provider,
                session_id=session.session_id,
                reason=error.refused.reason,
                message=error.refused.message,
            )
            raise
        self._show(opened, size)
        return opened

    def show(self, tab: str, size: Size) -> None:
        """A tab that was just started."""
        self._show(Opened(tab=tab, plan="start"), size)

    def restore_all(self) -> int:
        """Queue every tab whose terminal is gone; returns how many there are now."""
        with self._lock:
            gone = [one.tab for one in self.reports() if one.state in ("gone", "refused") and one.tab not in self._busy]
            for tab in gone:
                self._busy[tab] = "queued"
            fresh = self._progress.done == self._progress.total
            done, total, failed = (0, 0, 0) if fresh else structs.astuple(self._progress)
            self._progress = Progress(done=done, total=total + len(gone), failed=failed)
        self.refresh()
        self._on_progress(self._progress)
        for tab in gone:
            self._pool.submit(self._restore_one, tab)
        return len(gone)

    def close(self, tab: str) -> None:
        """Hide it. What runs goes on; what has ended is forgotten. Raises OSError."""
        report = self.find(tab)
        if report is not None and report.state in ("ended", "gone", "refused"):
            forget_tab(tab)
            self.layout.forget(tab)
        else:
            self.layout.close(tab)
        self.refresh()

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- one of many

    def _restore_one(self, tab: str) -> None:
        failed = True
        try:
            with self._turn_of(tab):
                failed = not self._try_open(tab)
        finally:
            with self._lock:
                now = self._progress
                self._progress = Progress(done=now.done + 1, total=now.total, failed=now.failed + failed)
            self._on_progress(self._progress)

    def _turn_of(self, tab: str) -> AbstractContextManager[object]:
        report = self.find(tab)
        provider = find_provider(report.provider) if report and report.provider else None
        if provider is None or not provider.capabilities.starts_one_at_a_time:
            return nullcontext()
        with self._lock:
            return self._one_at_a_time.setdefault(provider.name, threading.Lock())

    def _try_open(self, tab: str) -> bool:
        try:
            self.open_tab(tab, self._sizes.get(tab, _SIZE))
        except RefusedError:
            return False
        return True

    def _mark(self, tab: str, word: str | None) -> None:
        with self._lock:
            if word is None:
                self._busy.pop(tab, None)
            else:
                self._busy[tab] = word
        if tab in self._reports:
            self.refresh()

    def _note_refusal(self, tab: str, refused: Refused) -> None:
        report = self.find(tab)
        provider = report.provider if report else None
        self.log.write("restore_refused", tab=tab, provider=provider, reason=refused.reason, message=refused.message)
        with self._lock:
            self._refusals.pop(tab, None)
            if refused.reason not in _ABOUT_PROCESSES:
                self._refusals[tab] = report_refusal(refused)

    def _show(self, opened: Opened, size: Size) -> None:
        with self._lock:
            self._refusals.pop(opened.tab, None)
            self._sizes[opened.tab] = size
            layout = self.layout.layout
            if opened.tab not in layout.order or opened.tab in layout.closed:
                try:
                    self.layout.place(opened.tab)
                except OSError as error:  # it is open all the same; without a place it is shown last
                    self.log.write("layout_not_saved", tab=opened.tab, message=str(error))
        self.log.write("tab_opened", tab=opened.tab, plan=opened.plan)
        self.refresh()

    # --- what is true

    def _describe_all(self) -> list[TabView]:
        survey = self._look()
        listed = list_tabs(survey=survey)
        kept = [one.terminal.holder for one in listed.tabs if one.terminal]
        self.holders = frozenset(one for one in kept if one is not None)
        layout = self.layout.layout
        places_of = {tab: number for number, tab in enumerate(layout.order)}
        # A terminal started from the command line is a tab too, and comes last.
        shown = [one for one in listed.tabs if one.tab not in layout.closed]
        shown.sort(key=lambda one: places_of.get(one.tab, len(places_of)))
        self._refresh_last(shown)
        known = {one.key: one for one in survey.sessions}
        sessions = [self._session_of(one, known) for one in shown]
        return [
            self._describe(one, session, number)
            for number, (one, session) in enumerate(zip(shown, sessions, strict=True))
        ]

    def _session_of(self, tab: Tab, known: Mapping[SessionKey, Session]) -> Session | None:
        """As it is now; as it was last seen, if it is not listed any more."""
        last = self._last.get(tab.tab)
        session = tab.session or (last.session if last else None)
        return known.get(session.key, session) if session else None

    def _refresh_last(self, tabs: Sequence[Tab]) -> None:
        """Find the last session of those that lack it, with one survey for all."""
        unknown: list[str] = []
        for tab in tabs:
            known = self._last.get(tab.tab)
            if tab.binding is None or tab.standing is Standing.RUNNING:
                self._last.pop(tab.tab, None)
            elif known is None or known.binding != tab.binding:
                unknown.append(tab.tab)
        if unknown:
            self._last |= {one.tab: one for one in list_tabs(unknown).tabs}

    def _describe(self, tab: Tab, session: Session | None, order: int) -> TabView:
        binding = tab.binding
        provider = find_provider(binding.provider) if binding else None
        proven = provider is not None and provider.capabilities.restore == "resume"
        restorable = _is_named(session, binding) and proven and tab.unnoted is None
        columns, rows = self._size_of(tab)
        return TabView(
            tab=tab.tab,
            order=order,
            provider=binding.provider if binding else None,
            title=(session.title if session else None) or (binding.title if binding else None) or _name(provider),
            work_dir=(binding.work_dir if binding else None) or (session.work_dir if session else None),
            ref=session_ref(session.key) if session else None,
            state=self._state_of(tab),
            restorable=restorable,
            live_only_reason=None if restorable else self._why_live_only(tab),
            pid=tab.terminal.child.pid if tab.terminal and tab.standing is Standing.RUNNING else None,
            exit_status=tab.terminal.status if tab.terminal else None,
            ended=say_end(tab.terminal.status) if tab.terminal and tab.standing is Standing.ENDED else None,
            refusal=self._refusal_of(tab) or _foreseen(tab, session),
            activity=tab.session.activity if tab.session else None,
            columns=columns,
            rows=rows,
        )

    def _why_live_only(self, tab: Tab) -> str:
        if tab.unnoted is not None:
            return f"its process could not be recorded ({tab.unnoted}): once its terminal is lost, it can't come back"
        last = self._last.get(tab.tab)
        if last is not None and last.binding is not None and last.session is None:
            return last.binding.silence or last.reason or "its agent never reported its session"
        return tab.damage or tab.reason or "its agent has not reported its session yet"

    def _state_of(self, tab: Tab) -> str:
        if busy := self._busy.get(tab.tab):
            return busy
        match tab.standing:
            case Standing.RUNNING:
                pending = tab.session is not None and tab.session.state is State.PENDING
                return "starting" if pending else "running"
            case Standing.ENDED:
                return "refused" if tab.tab in self._refusals else "ended"
            case Standing.LOST | Standing.ELSEWHERE:
                return "refused" if self._refusal_of(tab) else "gone"

    def _refusal_of(self, tab: Tab) -> RefusalReport | None:
        """Why the last try was refused; of a tab whose record is damaged, why any would be."""
        if tab.tab in self._refusals:
            return self._refusals[tab.tab]
        if tab.damage is None or tab.standing is Standing.RUNNING:
            return None
        plan = plan_for(tab)
        if not isinstance(plan, Refused):
            return None
        return report_refusal(plan)

    def _size_of(self, tab: Tab) -> Size:
        """Its holder is asked once, if somebody else started it."""
        if tab.tab not in self._sizes and tab.standing is Standing.RUNNING:
            try:
                with Client(terminals_dir(), tab.tab) as client:
                    fields = client.ask().fields
                self._sizes[tab.tab] = int(fields["columns"]), int(fields["rows"])
            except (NotReachable, OSError, KeyError, ValueError):
                self._sizes[tab.tab] = _SIZE
        return self._sizes.get(tab.tab, _SIZE)


def _is_named(session: Session | None, binding: Binding | None) -> bool:
    """Whether a provider has named it for this tab, now or before: our own launch only says what was asked for."""
    return session is not None and (session.state is not State.PENDING or bool(binding and binding.previous))


def _foreseen(tab: Tab, session: Session | None) -> RefusalReport | None:
    """Of a tab whose terminal is gone: why a try would be refused, as far as is known now."""
    if tab.standing is not Standing.LOST or session is None or not isinstance(session.restore, Refused):
        return None
    return report_refusal(session.restore)


def _name(provider: Provider | None) -> str:
    return provider.capabilities.title if provider is not None else "terminal"


# --- what a person arranged: one small file, kept over restarts


_LIMIT = 4 << 20
_MOST = 20_000


class Layout(Struct, frozen=True, kw_only=True):
    """Tabs by their ids, sessions by their references."""

    schema: int = 1
    order: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    """Tabs that are not shown although their terminal is there."""
    dismissed: tuple[str, ...] = ()


class LayoutFile:
    """Read once, written at every change. Safe to use from several threads of one process."""

    def __init__(self, state_dir: str) -> None:
        self._directory = os.path.join(state_dir, "server")
        self._lock = threading.Lock()
        self.problem: str | None = None
        """Why what was kept could not be read."""
        self._layout = self._read()

    @property
    def layout(self) -> Layout:
        return self._layout

    def place(self, tab: str, position: int | None = None) -> None:
        """Put a tab at a position, or last. It is no longer closed. Raises OSError."""
        with self._lock:
            order = _without(self._layout.order, tab)
            order.insert(len(order) if position is None else max(0, position), tab)
            self._keep(order=order, closed=_without(self._layout.closed, tab))

    def close(self, tab: str) -> None:
        with self._lock:
            self._keep(closed=[*_without(self._layout.closed, tab), tab])

    def forget(self, tab: str) -> None:
        with self._lock:
            self._keep(order=_without(self._layout.order, tab), closed=_without(self._layout.closed, tab))

    def dismiss(self, reference: str, *, dismissed: bool) -> None:
        with self._lock:
            added = [reference] if dismissed else []
            self._keep(dismissed=_without(self._layout.dismissed, reference) + added)

    def _keep(self, **changed: Sequence[str]) -> None:
        layout = structs.replace(self._layout, **{name: tuple(tabs[-_MOST:]) for name, tabs in changed.items()})
        if layout == self._layout:
            return
        write_record(self._directory, "layout.json", layout)
        self._layout = layout

    def _read(self) -> Layout:
        path = os.path.join(self._directory, "layout.json")
        layout = read_record(path, msgspec.json.Decoder(Layout).decode, _LIMIT)
        if isinstance(layout, Unreadable):
            self.problem = None if layout.code == "io:ENOENT" else f"layout.json: {layout.reason}"
            return Layout()
        return layout if layout.schema == 1 else Layout()


def _without(names: Iterable[str], name: str) -> list[str]:
    return [one for one in names if one != name]
