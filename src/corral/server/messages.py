"""The nouns of the HTTP API: what is sent, what is answered, and how the server says no.

docs/api.md and the page's types are made from these.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs
from starlette.responses import Response

from corral.machine.json_text import encode_json
from corral.machine.text import readable
from corral.model.refusal import RefusalReport, report_refusal
from corral.model.restore import Refusal, Refused
from corral.model.session import AgentProcess, Degraded, StateWord
from corral.model.session_report import SCHEMA, SessionReport
from corral.model.tab import TabView


class Nothing(Struct, frozen=True):
    """An empty object."""


class Hello(Struct, frozen=True):
    """A page names its login, or the name of a link's code, with a fresh number (32 hexadecimal digits)."""

    login: str
    nonce: str


class ServerProof(Struct, frozen=True, kw_only=True):
    """The server's own fresh number, and its proof over both."""

    nonce: str
    proof: str


class PageProof(Struct, frozen=True):
    """The page's proof, for the server's number. `label` is the name of a new login in the list."""

    nonce: str
    proof: str
    label: str = ""


class PageToken(Struct, frozen=True, kw_only=True):
    """What the page sends from now on, as `Authorization: Corral <token>`; after a code also the new login."""

    token: str
    seconds: int
    login: str | None
    salt: str | None


class TicketWanted(Struct, frozen=True):
    nonce: str


class SocketTicket(Struct, frozen=True, kw_only=True):
    """Opens one WebSocket, as the subprotocols `corral, ticket.<ticket>`. The proof shows that the server made it."""

    ticket: str
    proof: str


class LoginReport(Struct, frozen=True, kw_only=True):
    """One browser that is logged in. Times are seconds since 1970."""

    login: str
    label: str
    created_at: float
    used_at: float


class LoginList(Struct, frozen=True, kw_only=True):
    logins: tuple[LoginReport, ...]


class SpentBySession(Struct, frozen=True, kw_only=True):
    """What one session used. Money is a decimal as text; null if nothing in it has a known price."""

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
    """All sessions together, with the days before."""

    cost: str | None
    currency: str
    tokens: int
    days: tuple[SpentOnDay, ...]
    losses: tuple[str, ...]
    """What was counted before and is lost, each in a sentence."""


class RestoreKind(StrEnum):
    """How one gets back into a session."""

    ATTACH = "attach"
    RESUME = "resume"
    WAIT = "wait"
    REFUSED = "refused"


class ListedSession(SessionReport, frozen=True, kw_only=True):
    """A session of `corral ps --all --json`, with what the page also needs."""

    ref: str
    """The handle by which all other requests name it."""
    tab: str | None
    dismissed: bool
    usage: SpentBySession | None


class RestoreSupport(StrEnum):
    """Whether a provider's sessions can be restored."""

    RESUME = "resume"
    NONE = "none"


class HooksStanding(StrEnum):
    """The status of our hooks in a provider's settings."""

    INSTALLED = "installed"
    MISSING = "missing"
    CHANGED = "changed"


class ProviderReport(Struct, frozen=True, kw_only=True):
    """One agent CLI. `hooks` is installed, missing or changed; null if it takes no hooks."""

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
    """Whether this is a demo: a throw-away home, where nothing is the person's own."""
    states: tuple[StateWord, ...]
    """Each state with its word, sign and colour, in the order in which lists show them."""


class OneSession(Struct, frozen=True, kw_only=True):
    session: ListedSession


class PlaceKind(StrEnum):
    """Where a process is: in a tab of ours, in a pane of tmux, in another terminal, or in none."""

    TAB = "tab"
    TMUX = "tmux"
    TERMINAL = "terminal"
    NONE = "none"


class ProcessPlace(Struct, frozen=True, kw_only=True):
    """A process that has the session, or may have it. `kind` is tab, tmux, terminal or none."""

    pid: int
    kind: str
    words: str
    """Where it is, in a sentence."""
    tab: str | None = None
    """The tab of ours in which it runs."""
    command: tuple[str, ...] = ()
    """What to type in a terminal to go there."""


class LookedAt(Struct, frozen=True, kw_only=True):
    """One session as it is now, not as it was at the last change."""

    session: ListedSession
    processes: tuple[ProcessPlace, ...]


class Dismiss(Struct, frozen=True):
    dismissed: bool = True


class OpenSession(Struct, frozen=True):
    """`anyway` overrides maybe_open and claimed_elsewhere; `trust` agrees to a directory that is new to corral.

    `drop_from` agrees that the agent drops its transcript from this damaged line on: the line of a refusal's `loss`.
    With `attach_only` nothing is started: it is shown where it runs, or refused as `not_open`.
    """

    anyway: bool = False
    trust: bool = False
    drop_from: int | None = None
    attach_only: bool = False
    columns: int = 120
    rows: int = 40


class OpenTab(Struct, frozen=True):
    """The fields mean the same as for a session."""

    anyway: bool = False
    trust: bool = False
    drop_from: int | None = None
    columns: int = 120
    rows: int = 40


class OpenedTab(Struct, frozen=True, kw_only=True):
    """`plan` is attach, resume or wait."""

    tab: str
    plan: str


class TabState(StrEnum):
    """What became of a tab's terminal."""

    RUNNING = "running"
    STARTING = "starting"
    ENDED = "ended"
    GONE = "gone"
    REFUSED = "refused"
    QUEUED = "queued"
    RESUMING = "resuming"


class TabList(Struct, frozen=True, kw_only=True):
    tabs: tuple[TabView, ...]


class NewTab(Struct, frozen=True):
    """A new session. `live_only` starts it without the hooks that would make it restorable."""

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
    """`ref` is the session that the person saw in it. If it has another one by now, nothing is ended."""

    ref: str | None = None


class Queued(Struct, frozen=True, kw_only=True):
    queued: int


class Move(Struct, frozen=True):
    order: int


class HooksInstalled(Struct, frozen=True, kw_only=True):
    status: str


class UsageTokens(Struct, frozen=True, kw_only=True):
    """By kind; the kinds are disjoint."""

    input: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    output: int
    reasoning: int


class UsageCost(Struct, frozen=True, kw_only=True):
    """`amount` is the sum of what has a price, a decimal as text; null if nothing has one."""

    amount: Decimal | None
    currency: str
    unpriced_events: int
    assumed_events: int


class UsageRow(Struct, frozen=True, kw_only=True):
    """`calls` is only set by tool. `turns` is null if these keys don't allow to count it."""

    key: dict[str, str | None]
    events: int
    tokens: UsageTokens
    cost: UsageCost
    calls: int | None
    turns: int | None


class UnrecordedUsage(Struct, frozen=True, kw_only=True):
    """Calls whose tokens were not recorded; `events` is null if they leave no trace."""

    provider: str
    kind: str
    events: int | None


class SkippedUsage(Struct, frozen=True, kw_only=True):
    """A line that could not be counted, or a log that could not be read."""

    path: str
    offset: int
    reason: str


class PriceOrigin(Struct, frozen=True, kw_only=True):
    """Where the price of a model comes from. `dated` is null for your own prices."""

    model: str
    listed_as: str
    source: str
    dated: str | None
    assumed: bool


class LostUsage(Struct, frozen=True, kw_only=True):
    """What was counted before and is lost; null where that is not known. Times are seconds since 1970."""

    noticed_at: float
    what: str
    events: int | None
    since: float | None
    until: float | None


class UnreadUsage(Struct, frozen=True, kw_only=True):
    """Logs that were not read yet, as no question needed them. `until`: when the newest of them was last modified."""

    files: int
    bytes: int
    until: float


class UsageDocument(Struct, frozen=True, kw_only=True):
    """The same as `corral usage --json` (docs/json.md). `budget` is always null here."""

    schema: int
    rows: tuple[UsageRow, ...]
    total: UsageRow
    unrecorded: tuple[UnrecordedUsage, ...]
    skipped: tuple[SkippedUsage, ...]
    notice: str | None
    budget: dict[str, Any] | None
    prices: tuple[PriceOrigin, ...]
    notes: tuple[str, ...]
    losses: tuple[LostUsage, ...]
    unread: UnreadUsage | None


class Directories(Struct, frozen=True, kw_only=True):
    directories: tuple[str, ...]
    recent: tuple[str, ...]


class Health(Struct, frozen=True, kw_only=True):
    ok: bool = True


# --- refusals

_CONFLICT = 409
_STATUS = {
    Refusal.INVALID: 400,
    Refusal.TOO_LARGE: 400,
    Refusal.NOT_LOGGED_IN: 401,
    Refusal.LOGIN_UNKNOWN: 401,
    Refusal.WRONG_PROOF: 401,
    Refusal.WRONG_ORIGIN: 403,
    Refusal.WRONG_CONTENT_TYPE: 403,
    Refusal.HEADER_MISSING: 403,
    Refusal.NOT_FOUND: 404,
    Refusal.NO_SUCH_SESSION: 404,
    Refusal.NO_SUCH_TAB: 404,
    Refusal.NO_SUCH_PROVIDER: 404,
    Refusal.NO_SUCH_LOGIN: 404,
    Refusal.METHOD_NOT_ALLOWED: 405,
    Refusal.TOO_SLOW: 408,
    Refusal.WRONG_HOST: 421,
    Refusal.TOO_MANY: 429,
    Refusal.BUG: 500,
}
"""All others are conflicts: the request is clear, and can't be done as things are."""


class ErrorDocument(Struct, frozen=True, kw_only=True):
    """The body of every answer with a status of 400 or above."""

    error: RefusalReport


def status_of(refused: Refused) -> int:
    return _STATUS.get(refused.reason, _CONFLICT)


def answer_refused(refused: Refused, status: int | None = None) -> Response:
    report = structs.replace(report_refusal(refused), message=readable(refused.message))
    data = encode_json(ErrorDocument(error=report))
    return Response(data, status or status_of(refused), media_type="application/json")
