"""How to get back into a session: attach, resume, wait, or a refusal with its reason and remedy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from corral.model.key import SessionKey


class Refusal(StrEnum):
    """The closed list of reasons; the same word in JSON, log and page."""

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


class Command(Struct, frozen=True):
    """Something one can do by typing it: a line for a shell, whole as it stands."""

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
    """A living process serves it: go there."""

    pid: int
    terminal: str | None = None


class Resume(Struct, frozen=True, kw_only=True, tag="resume", tag_field="kind"):
    """Start the provider's own program with this; argv is a list, never a shell string."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    """What is added to the environment: the home's variable, if the home is not the default one."""


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
    """The session it will be, where the caller may choose the id; None where only the CLI's own word will tell."""


class Wait(Struct, frozen=True, kw_only=True, tag="wait", tag_field="kind"):
    """corral launched it and waits for the provider's first word."""

    pid: int


class Refused(Struct, frozen=True, kw_only=True, tag="refused", tag_field="kind"):
    """It can't be restored now."""

    reason: Refusal
    message: str
    """What is so, in one sentence."""
    remedy: tuple[Remedy, ...] = ()
    loss: Loss | None = None
    """The only objection, if it is one: what a resume would drop. The person may agree to that."""
    agreed: Resume | None = None
    """What is started then."""


RestorePlan = Attach | Resume | Wait | Refused


class Program(Struct, frozen=True, kw_only=True):
    """An installed agent CLI."""

    provider: str
    path: str
    version: str | None
    """None when it could not be told without running it."""
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
