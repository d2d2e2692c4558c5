"""The nouns of the HTTP API: what is sent and what is answered. docs/api.md is made from these."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from corral.engine.report import SCHEMA, SessionReport
from corral.engine.tab_keeper import TabView
from corral.model.session import AgentProcess, Degraded


class Nothing(Struct, frozen=True):
    """An empty object."""


class Login(Struct, frozen=True):
    """The one-time code of a link from `corral serve` or `corral url`."""

    code: str


class SpentBySession(Struct, frozen=True, kw_only=True):
    """What one session used. Money is a decimal as text; null when nothing of it has a known price."""

    tokens: int
    cost: str | None
    currency: str
    today_tokens: int
    today_cost: str | None
    assumed: bool


class SpentOnDay(Struct, frozen=True, kw_only=True):
    day: str
    cost: str | None
    tokens: int


class SpentToday(Struct, frozen=True, kw_only=True):
    """Of all sessions, with the days before."""

    cost: str | None
    currency: str
    tokens: int
    days: tuple[SpentOnDay, ...]


class ListedSession(SessionReport, frozen=True, kw_only=True):
    """A session of `corral ps --all --json`, with what a page needs besides."""

    ref: str
    """The handle by which everything else names it."""
    tab: str | None
    dismissed: bool
    usage: SpentBySession | None


class ProviderReport(Struct, frozen=True, kw_only=True):
    """One agent CLI. `hooks` is installed, missing or changed; null where it takes none of ours."""

    name: str
    title: str
    installed: bool
    version: str | None
    restore: str
    needs_hooks: bool
    hooks: str | None
    picks_id: bool
    proven: bool


class SessionList(Struct, frozen=True, kw_only=True):
    """As `corral ps --all --json` (docs/json.md), with `event`: the newest event that is already in it."""

    schema: int = SCHEMA
    host: str
    generated_at: float
    sessions: tuple[ListedSession, ...]
    unattributed: tuple[AgentProcess, ...]
    no_session_yet: tuple[AgentProcess, ...]
    counts: dict[str, int]
    degraded: tuple[Degraded, ...]
    event: int
    providers: tuple[ProviderReport, ...]
    usage_today: SpentToday | None
    user_home: str
    version: str
    demo: bool
    """Whether all of it is a demonstration's: a throw-away home, where nothing is the person's own."""


class OneSession(Struct, frozen=True, kw_only=True):
    session: ListedSession


class Dismiss(Struct, frozen=True):
    dismissed: bool = True


class OpenSession(Struct, frozen=True):
    """`anyway` overrides maybe_open and nothing else; `trust` agrees to run it in a directory new to corral."""

    anyway: bool = False
    trust: bool = False
    columns: int = 120
    rows: int = 40


class OpenTab(Struct, frozen=True):
    """As for a session."""

    anyway: bool = False
    trust: bool = False
    columns: int = 120
    rows: int = 40


class OpenedTab(Struct, frozen=True, kw_only=True):
    """`plan` is attach, resume or wait."""

    tab: str
    plan: str


class TabList(Struct, frozen=True, kw_only=True):
    tabs: tuple[TabView, ...]


class NewTab(Struct, frozen=True):
    """A fresh session. `live_only` starts it although the hooks that would make it restorable are missing."""

    provider: str
    work_dir: str
    args: tuple[str, ...] = ()
    trust: bool = False
    live_only: bool = False
    columns: int = 120
    rows: int = 40


class StartedTab(Struct, frozen=True, kw_only=True):
    tab: str


class EndTab(Struct, frozen=True):
    """`ref` is the session that the person saw in it: if it has another by now, nothing is ended."""

    ref: str | None = None


class Queued(Struct, frozen=True, kw_only=True):
    queued: int


class Move(Struct, frozen=True):
    order: int


class HooksInstalled(Struct, frozen=True, kw_only=True):
    status: str


class UsageDocument(Struct, frozen=True, kw_only=True):
    """The same as `corral usage --json`; docs/json.md says what each row has."""

    schema: int
    rows: tuple[dict[str, Any], ...]
    total: dict[str, Any]
    unrecorded: tuple[dict[str, Any], ...]
    skipped: tuple[dict[str, Any], ...]
    notice: str | None
    budget: dict[str, Any] | None
    prices: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


class Directories(Struct, frozen=True, kw_only=True):
    directories: tuple[str, ...]
    recent: tuple[str, ...]


class Health(Struct, frozen=True, kw_only=True):
    ok: bool = True
