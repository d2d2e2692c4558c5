"""The JSON of tabs, for `corral terminals --json`. Documented in docs/json.md."""

from __future__ import annotations

from msgspec import Struct

from corral.model.session_report import SCHEMA, SessionReport
from corral.model.terminal import Standing
from corral.sessions.report import report_session
from corral.tabs.listing import Tab, Tabs


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
        # A record that can't be read, and nothing running, is told of below.
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
