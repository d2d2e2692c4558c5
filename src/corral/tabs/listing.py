"""Tabs: what was opened in terminals of our own, and which session each has, by its provider's word alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Container

from msgspec import Struct, structs

from corral.machine import places
from corral.machine.processes import ProcessTable
from corral.model.claim import ClaimKind
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity, identity_fields
from corral.model.record import Skipped
from corral.model.selection import Selection
from corral.model.session import Session, Survey
from corral.model.session_report import SCHEMA, SessionReport
from corral.model.terminal import Standing, Terminal
from corral.model.verdict import State
from corral.providers.registry import has_provider
from corral.sessions.report import report_session
from corral.sessions.survey import take_survey
from corral.state.bindings import Binding, Bindings
from corral.tabs.plan import decide_last_session
from corral.terminals.client import dismiss_terminal
from corral.terminals.directory import find_terminal, list_terminals, terminals_dir

_OVER = frozenset({Standing.ENDED, Standing.LOST})
_SERVED = frozenset({State.LIVE, State.PENDING})


class Tab(Struct, frozen=True, kw_only=True):
    """One tab: what was asked for, what runs, and the session that its provider names for it."""

    tab: str
    binding: Binding | None
    """None of a terminal that was started by other means."""
    terminal: Terminal | None
    """None when nothing is left of it."""
    session: Session | None = None
    """The one it has; of a tab that has ended, the one it had last."""
    reason: str | None = None
    """Why no session is known."""
    damage: str | None = None
    """Why its record can't be read."""
    unnoted: str | None = None
    """Why its agent's process could not be recorded: when the terminal is lost, nobody would know its session."""

    @property
    def standing(self) -> Standing:
        return self.terminal.standing if self.terminal else Standing.LOST


class Tabs(Struct, frozen=True, kw_only=True):
    """All of them, and the bindings that can't be read."""

    tabs: tuple[Tab, ...]
    skipped: tuple[Skipped, ...] = ()


class Served(Struct, frozen=True, kw_only=True):
    """What a terminal's program, or a process below it, serves."""

    session: Session
    agent: ProcessIdentity


def list_tabs(wanted: Collection[str] | None = None, survey: Survey | None = None) -> Tabs:
    """Every tab, or those wanted, oldest first. What providers say of running ones is noted in their bindings.

    One survey answers for all of them. `survey` spares taking it, for whoever has just done so; then tabs that run no
    more are not asked which session they had.
    """
    bindings = Bindings(places.state_dir())
    tabs, skipped = _read_tabs(bindings, wanted)
    running = [tab for tab in tabs if tab.standing is Standing.RUNNING]
    over = [tab for tab in tabs if tab.standing in _OVER] if survey is None else []
    if over:
        # The evidence of processes long gone is wanted, too; and a conversation that was deleted must not make an
        # older one of the same tab look like its last.
        survey = take_survey(Selection(id_prefix="", deleted=True))
    elif running and survey is None:
        survey = take_survey(Selection(states=_SERVED))
    if survey is not None:
        table = ProcessTable()
        found = {tab.tab: _with_session(tab, survey, table, bindings) for tab in running}
        found |= {tab.tab: _with_last_session(tab, survey) for tab in over}
        tabs = [found.get(tab.tab, tab) for tab in tabs]
    return Tabs(tabs=tuple(tabs), skipped=tuple(skipped))


def read_tab(tab: str) -> Tab | None:
    """As its files say, without its session; None when there is none."""
    return next(iter(_read_tabs(Bindings(places.state_dir()), [tab])[0]), None)


def _read_tabs(bindings: Bindings, wanted: Collection[str] | None) -> tuple[list[Tab], list[Skipped]]:
    bound, skipped = bindings.read_all()
    by_tab = {binding.tab: binding for binding in bound if has_provider(binding.provider)}
    skipped += [_not_known(bindings, binding) for binding in bound if binding.tab not in by_tab]
    unread = [one for one in skipped if one.path.endswith(".json")]
    damaged = {os.path.basename(one.path).removesuffix(".json"): one.reason for one in unread}
    terminals = {terminal.tab: terminal for terminal in list_terminals(terminals_dir())}
    names = [name for name in dict.fromkeys((*by_tab, *terminals, *damaged)) if wanted is None or name in wanted]
    tabs = [
        Tab(tab=name, binding=by_tab.get(name), terminal=terminals.get(name), damage=damaged.get(name))
        for name in names
    ]
    return tabs, skipped


def watched_places() -> tuple[str, ...]:
    """Directories in which something changes when tabs do."""
    return terminals_dir(), Bindings(places.state_dir()).directory


def _not_known(bindings: Bindings, binding: Binding) -> Skipped:
    reason = f"this corral does not know {binding.provider}: a newer one may"
    return Skipped(provider="corral", path=bindings.path_of(binding.tab), reason=reason)


def _with_last_session(tab: Tab, survey: Survey) -> Tab:
    binding = tab.binding
    if binding is None:
        return structs.replace(tab, reason=tab.damage or "its agent was never identified")
    here = [one for one in survey.sessions if one.provider == binding.provider]
    found = decide_last_session(binding.processes, here)
    return structs.replace(tab, reason=found) if isinstance(found, str) else structs.replace(tab, session=found)


def find_tab_started_on(key: SessionKey) -> str | None:
    """A running tab that was started on this session. It may have another one by now: for advice only."""
    for binding in Bindings(places.state_dir()).read_all()[0]:
        terminal = find_terminal(terminals_dir(), binding.tab) if binding.wanted == key else None
        if terminal is not None and terminal.standing is Standing.RUNNING:
            return binding.tab
    return None


def forget_tab(tab: str) -> None:
    """The person is done with it: its binding and what an ended program left are dropped. Raises OSError."""
    terminal = find_terminal(terminals_dir(), tab)
    if terminal is None or terminal.standing is not Standing.RUNNING:
        dismiss_terminal(terminals_dir(), tab)
        Bindings(places.state_dir()).forget(tab)


def _with_session(tab: Tab, survey: Survey, table: ProcessTable, bindings: Bindings) -> Tab:
    if tab.terminal is None:
        return tab
    found = find_served(tab.terminal.child, tab.binding.provider if tab.binding else None, survey, table)
    binding = tab.binding
    silence = binding.silence if binding else None
    if found is None:
        return structs.replace(tab, reason=silence or "its agent has not reported its session yet")
    if isinstance(found, str):
        return structs.replace(tab, reason=found)
    if silence is not None and not _is_kept(found):
        # Neither our launch nor an open log outlives the process, and nothing else is expected of its provider.
        return structs.replace(tab, reason=silence)
    if binding is not None and found.session.state is State.LIVE and binding.agent_process != found.agent:
        noted = structs.replace(binding, agent=identity_fields(found.agent))
        try:
            bindings.write(noted)
        except OSError as error:  # the next look tries again
            if found.agent not in binding.processes:
                return structs.replace(tab, session=found.session, unnoted=error.strerror or str(error))
        binding = noted
    return structs.replace(tab, binding=binding, session=found.session)


def _is_kept(found: Served) -> bool:
    return any(
        judged.identity == found.agent and judged.claim.kind not in (ClaimKind.LAUNCH, ClaimKind.LOG)
        for judged in found.session.verdict.evidence
    )


def find_served(
    child: ProcessIdentity, provider: str | None, survey: Survey, table: ProcessTable
) -> Served | str | None:
    """The session that the agent nearest to the terminal's program serves, or why none is known; None: not yet known.

    Nearest: an agent that runs inside another one's tools must not take over the tab.
    """
    program = table.find(child.pid)
    if program is None or program.identity != child:
        return "its program has ended"
    depths = _depths(child.pid, table)
    silent = [
        depths[process.pid]
        for process in (*survey.unattributed, *survey.no_session_yet)
        if process.pid in depths and provider in (None, process.provider)
    ]
    served = [one for one in _list_served(depths, survey, table) if provider in (None, one.session.provider)]
    nearest = min((depths[one.agent.pid] for one in served), default=None)
    if nearest is None or min(silent, default=nearest) < nearest:
        return None
    found = [one for one in served if depths[one.agent.pid] == nearest]
    return found[0] if len(found) == 1 else f"it serves {len(found)} sessions"


def list_shared(child: ProcessIdentity, survey: Survey, table: ProcessTable) -> list[Session]:
    """The sessions of the terminal's program, and of what runs below it, that share their process with another.

    A sub-agent is a part of the session that started it, where that is in the same process.
    """
    served = _list_served(_depths(child.pid, table), survey, table)
    live = [one for one in served if one.session.state is State.LIVE]
    whole = [
        one
        for one in live
        if not any(one.session.is_subagent_of(other.session.key) for other in live if other.agent == one.agent)
    ]
    count = Counter(one.agent for one in whole)
    return [one.session for one in whole if count[one.agent] > 1]


def _depths(pid: int, table: ProcessTable) -> dict[int, int]:
    depths = {pid: 0}
    for process in table.descendants(pid):
        depths[process.pid] = depths[process.parent_pid] + 1
    return depths


def _list_served(depths: Container[int], survey: Survey, table: ProcessTable) -> list[Served]:
    """What these processes serve, as far as each is still the one that was verified."""
    return [
        Served(session=session, agent=identity)
        for session in survey.sessions
        for identity in session.verdict.processes
        if identity.pid in depths and (process := table.find(identity.pid)) and process.identity == identity
    ]


# --- JSON, documented in docs/json.md


class TabReport(Struct, frozen=True, kw_only=True):
    """One tab. Times are epoch seconds; `session` is null with a `reason` while its provider has not named one."""

    tab: str
    standing: str
    provider: str | None
    home: str | None
    work_dir: str | None
    title: str | None
    pid: int | None
    holder_pid: int | None
    opened_at: float | None
    status: int | None
    ended_at: float | None
    session: SessionReport | None
    reason: str | None


class SkippedReport(Struct, frozen=True, kw_only=True):
    """A binding that can't be read."""

    path: str
    reason: str


class TabsDocument(Struct, frozen=True, kw_only=True):
    """`corral terminals --json`."""

    schema: int = SCHEMA
    terminals: tuple[TabReport, ...]
    skipped: tuple[SkippedReport, ...]


def report_tabs(found: Tabs) -> TabsDocument:
    return TabsDocument(
        # A record that can't be read, and nothing running, is listed below.
        terminals=tuple(report_tab(tab) for tab in found.tabs if tab.binding or tab.terminal),
        skipped=tuple(SkippedReport(path=one.path, reason=one.reason) for one in found.skipped),
    )


def report_tab(tab: Tab) -> TabReport:
    binding, terminal = tab.binding, tab.terminal
    runs = tab.standing is Standing.RUNNING
    return TabReport(
        tab=tab.tab,
        standing=tab.standing,
        provider=binding.provider if binding else None,
        home=binding.home if binding else None,
        work_dir=binding.work_dir if binding else None,
        title=binding.title if binding else None,
        pid=terminal.child.pid if terminal and runs else None,
        holder_pid=terminal.holder.pid if terminal and terminal.holder and runs else None,
        opened_at=binding.opened_at if binding else (terminal.started_at if terminal else None),
        status=terminal.status if terminal else None,
        ended_at=terminal.ended_at if terminal else None,
        session=report_session(tab.session) if tab.session else None,
        reason=tab.reason,
    )
