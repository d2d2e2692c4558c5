"""The answer: one session with its verdict, how it appears and how to get back in; and a whole survey of them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.model.key import Home, SessionKey
from corral.model.process import ProcessMode, Recognised
from corral.model.record import SessionRecord, Skipped
from corral.model.restore import RestorePlan
from corral.model.verdict import Activity, Liveness, SessionVerdict, State


class Session(Struct, frozen=True, kw_only=True):
    """One session as corral answers it: what the provider wrote, what is true of it, how to get back in."""

    key: SessionKey
    verdict: SessionVerdict
    restore: RestorePlan
    record: SessionRecord | None
    """None when a process claims a session of which nothing is on disk yet."""
    pid_started_at: float | None = None
    """When the serving process took the session, in epoch seconds; None when no process serves it."""
    work_dir: str | None = None
    version: str | None = None
    """Of the CLI that serves or last served it, as it reported."""
    model: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        return self.key.provider

    @property
    def session_id(self) -> str:
        return self.key.session_id

    @property
    def state(self) -> State:
        return self.verdict.state

    @property
    def activity(self) -> Activity | None:
        return self.verdict.activity

    @property
    def pids(self) -> tuple[int, ...]:
        """The verified processes that serve it."""
        return tuple(process.pid for process in self.verdict.processes)

    @property
    def pid(self) -> int | None:
        """The process that took it last, or None when no process serves it."""
        return self.verdict.processes[-1].pid if self.verdict.processes else None

    @property
    def foreground(self) -> bool | None:
        """Of a live session whose process has several: whether it is the one in front; None where nobody says."""
        live = (judged for judged in self.verdict.evidence if judged.liveness is Liveness.LIVE)
        said = {judged.claim.foreground for judged in live} - {None}
        return None if not said else True in said

    def is_subagent_of(self, key: SessionKey) -> bool:
        """Whether that session started it: then it is a part of that, and ends with it."""
        if self.record is None or self.record.parent_id != key.session_id:
            return False
        return (self.key.provider, self.key.home) == (key.provider, key.home)

    @property
    def waits_for(self) -> str | None:
        """What the person is asked: as the process that serves it says, else as its transcript does."""
        live = (judged.claim for judged in self.verdict.evidence if judged.liveness is Liveness.LIVE)
        said = next((claim.waits_for for claim in live if claim.waits_for), None)
        return said or (self.record.waits_for if self.record else None)

    @property
    def silence(self) -> str | None:
        """Of one that corral has started: why its provider will not say so. None where a report is expected."""
        if self.state is not State.PENDING:
            return None
        return next((judged.claim.silence for judged in self.verdict.evidence if judged.claim.silence), None)

    @property
    def elsewhere(self) -> str | None:
        """Of a session that can't be checked from here: who claims it, in a few words, the same in every view."""
        if self.state is not State.ELSEWHERE:
            return None
        # A container may have the name of this host: then the name says nothing.
        away = next((judged for judged in self.verdict.evidence if judged.elsewhere), None)
        named = away is not None and away.liveness is Liveness.REMOTE and away.claim.hostname
        return f"claimed by {named}" if named else "elsewhere"

    @property
    def durable(self) -> bool:
        return self.record is not None and self.record.durable

    @property
    def title(self) -> str | None:
        return self.record.title if self.record else None

    @property
    def updated_at(self) -> float | None:
        return self.record.updated_at if self.record else None


class AgentProcess(Struct, frozen=True, kw_only=True):
    """A running agent CLI without a known session: it does not report one, or it has none yet."""

    provider: str
    pid: int
    started_at: float
    home: str | None
    mode: ProcessMode
    terminal: str | None
    work_dir: str | None
    advice: str | None
    """The command that would make it known; None when there is nothing to do."""

    @classmethod
    def of(cls, process: Recognised, advice: str | None = None) -> AgentProcess:
        return cls(
            provider=process.provider,
            pid=process.identity.pid,
            started_at=process.started_at,
            home=process.home,
            mode=process.mode,
            terminal=process.terminal,
            work_dir=process.work_dir,
            advice=advice,
        )


class Degraded(Struct, frozen=True, kw_only=True):
    """A step of the survey that failed: nothing found and nothing readable are not the same."""

    provider: str
    step: str
    reason: str


class Survey(Struct, frozen=True, kw_only=True):
    """Everything corral knows at one moment."""

    hostname: str
    taken_at: float
    sessions: tuple[Session, ...]
    counts: dict[State, int]
    """Of all sessions, also those that were not selected."""
    unattributed: tuple[AgentProcess, ...] = ()
    no_session_yet: tuple[AgentProcess, ...] = ()
    homes: tuple[Home, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unlisted: tuple[str, ...] = ()
    """Homes whose sessions were not all listed, because their provider failed: `degraded` says why."""


# --- how it appears in every view; `sessions.decide.state` decides that


class Colour(StrEnum):
    """Of a sign. What each looks like is up to the view."""

    GREEN = "green"
    BLUE = "blue"
    AMBER = "amber"
    GREY = "grey"
    RED = "red"
    VIOLET = "violet"
    FAINT = "faint"


class StateWord(Struct, frozen=True, kw_only=True):
    """A state, or one activity of a live session, without a session: for counts, filters and headings."""

    state: State
    activity: Activity | None = None
    word: str
    sign: str
    colour: Colour


class Appearance(Struct, frozen=True, kw_only=True):
    """One session as people see it. Views paint it and decide nothing."""

    word: str
    sign: str
    colour: Colour
    since: float | None = None
    """Epoch seconds: how long it has been so, shown as an age beside the word; None when that is not known."""
    lost_at: float | None = None
    """Epoch seconds: when a lost session last did something, shown as a time of day beside the word."""
    needs_you: bool = False
    order: tuple[float, float]
    """Sorted by it, those that need you come first, and nothing moves while its state stays the same."""
