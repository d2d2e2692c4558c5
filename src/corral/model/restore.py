"""How to get back into a session: attach, resume, wait, or a refusal with its reason and remedy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from corral.model.key import SessionKey


class Refusal(StrEnum):
    """The closed list of reasons; the same word on the command line, in JSON, in the log and on the page."""

    # a session or a tab is not opened
    ALREADY_LIVE = "already_live"
    CLAIMED_ELSEWHERE = "claimed_elsewhere"
    MAYBE_OPEN = "maybe_open"
    NEVER_IDENTIFIED = "never_identified"
    NOT_DURABLE = "not_durable"
    TRANSCRIPT_MISSING = "transcript_missing"
    WORK_DIR_MISSING = "work_dir_missing"
    WORK_DIR_UNREGISTERED = "work_dir_unregistered"
    HOME_MISSING = "home_missing"
    PROVIDER_MISSING = "provider_missing"
    PROVIDER_UNSUPPORTED = "provider_unsupported"
    UNSAFE_SETTINGS = "unsafe_settings"
    RESTORE_UNSUPPORTED = "restore_unsupported"
    IDENTITY_INVALID = "identity_invalid"
    SPAWN_FAILED = "spawn_failed"
    NOT_OPEN = "not_open"
    # not before a person has agreed
    ASK_TRUST = "ask_trust"
    HOOKS_MISSING = "hooks_missing"
    # there is nothing of that name
    NO_SUCH_SESSION = "no_such_session"
    NO_SUCH_TAB = "no_such_tab"
    NO_SUCH_PROVIDER = "no_such_provider"
    NO_SUCH_LOGIN = "no_such_login"
    NOT_FOUND = "not_found"
    # nothing is ended
    NOT_LIVE = "not_live"
    SERVES_OTHERS = "serves_others"
    SESSION_CHANGED = "session_changed"
    NOT_ANSWERING = "not_answering"
    NOT_RUNNING = "not_running"
    NOT_ENDED = "not_ended"
    # a request to the server is not let in, or not understood
    WRONG_HOST = "wrong_host"
    WRONG_ORIGIN = "wrong_origin"
    WRONG_CONTENT_TYPE = "wrong_content_type"
    HEADER_MISSING = "header_missing"
    NOT_LOGGED_IN = "not_logged_in"
    LOGIN_UNKNOWN = "login_unknown"
    WRONG_PROOF = "wrong_proof"
    TOO_MANY = "too_many"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    INVALID = "invalid"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    # it could not be done
    NOT_SAVED = "not_saved"
    HOOKS_REFUSED = "hooks_refused"
    LEDGER_UNUSABLE = "ledger_unusable"
    REFUSED = "refused"
    BUG = "bug"


class Command(Struct, frozen=True):
    """Something one can do by typing it: a whole line for a shell."""

    line: str


Remedy = str | Command
"""One thing that one can do: a sentence, or a command."""


def say_remedy(remedy: Iterable[Remedy]) -> tuple[str, ...]:
    """Each as text."""
    return tuple(one.line if isinstance(one, Command) else one for one in remedy)


def list_commands(remedy: Iterable[Remedy]) -> tuple[str, ...]:
    """Those that can be typed as they are."""
    return tuple(one.line for one in remedy if isinstance(one, Command))


class Attach(Struct, frozen=True, kw_only=True, tag="attach", tag_field="kind"):
    """A running process serves it: go there."""

    pid: int
    terminal: str | None = None


class Resume(Struct, frozen=True, kw_only=True, tag="resume", tag_field="kind"):
    """Start the provider's own program with this; argv is a list, never a shell string."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    """What is added to the environment: the home's variable, if the home is not the default one."""
    keep: tuple[str, ...] = ()
    """Files that this start is known to destroy under some conditions: copied first, and compared after."""


class Loss(Struct, frozen=True, kw_only=True):
    """What a resume would drop for good: the provider's own reader stops at a damaged line."""

    path: str
    line: int
    """The damaged one, counted from 1."""
    lines: int
    """How many that can be read come after it."""
    prompts: int
    """How many of those are prompts."""


class Start(Struct, frozen=True, kw_only=True, tag="start", tag_field="kind"):
    """Start a fresh session with this."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    key: SessionKey | None
    """The session it will be, where the caller may choose the id; None where only the CLI will say it."""


class Wait(Struct, frozen=True, kw_only=True, tag="wait", tag_field="kind"):
    """corral launched it and waits for the provider's first report."""

    pid: int


class GoThere(Struct, frozen=True, kw_only=True):
    """A place outside corral where the session is open."""

    kind: str
    target: str
    command: tuple[str, ...]


class Refused(Struct, frozen=True, kw_only=True, tag="refused", tag_field="kind"):
    """It is not done now, and why: made where that is decided, and shown as it is by every view."""

    reason: Refusal
    message: str
    """What is the case, in one sentence."""
    remedy: tuple[Remedy, ...] = ()
    loss: Loss | None = None
    """The only objection, if it is one: what a resume would drop. The person may agree to that."""
    agreed: Resume | None = None
    """What is started then."""
    hookless: str | None = None
    """The home in which hooks are missing, if that is the question."""
    go_there: GoThere | None = None
    """Where it is open, if one can get there from a terminal."""


RestorePlan = Attach | Resume | Wait | Refused


class Program(Struct, frozen=True, kw_only=True):
    """An installed agent CLI."""

    provider: str
    path: str
    version: str | None
    """None when that is not known without running it."""
    problem: str | None = None
    """Why it can't be used: a tombstone release, a version never proven."""


class ResumeFacts(Struct, frozen=True, kw_only=True):
    """What the disk says, gathered for one session just before a plan is made."""

    home_exists: bool
    work_dir_exists: bool
    transcript_exists: bool
    program: Program | None
    guard: Refused | None = None
    """The provider's own objection (kimi.json without the directory, …)."""
    loss: Loss | None = None
    """What the provider would drop; looked for only where one session was asked for."""
