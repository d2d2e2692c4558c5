"""A tab as views show it, what came of opening one, and what a person agreed to beforehand."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from corral.model.refusal import RefusalReport
from corral.model.restore import Refusal, Refused


class TabView(Struct, frozen=True, kw_only=True):
    """One tab. `state` is running, starting, ended, gone, refused, queued or resuming."""

    tab: str
    order: int
    provider: str | None
    title: str
    work_dir: str | None
    ref: str | None
    """The session that its process serves now (of a gone one: served last), by the provider's word."""
    state: str
    restorable: bool
    live_only_reason: str | None
    pid: int | None
    exit_status: int | None
    ended: str | None
    """Of one whose program has ended: how, in words."""
    refusal: RefusalReport | None
    activity: str | None
    columns: int
    rows: int


class Progress(Struct, frozen=True, kw_only=True):
    """Of "restore all"."""

    done: int
    total: int
    failed: int


# --- opening one


Agree = Callable[[Refused], bool]
"""Asked about what only a person can decide (ask_trust, hooks_missing, a loss): whether to go on all the same."""


class Agreement(Struct, frozen=True, kw_only=True):
    """What was agreed to before anything was asked."""

    trust: bool = False
    """To run agents in a directory that is new to corral."""
    live_only: bool = False
    """To do without the hooks that would make the tab restorable."""
    drop_from: int | None = None
    """To a loss that begins at this line, and to no other: the file may have changed since the person was asked."""

    def __call__(self, question: Refused) -> bool:
        match question.reason:
            case Refusal.ASK_TRUST:
                return self.trust
            case Refusal.HOOKS_MISSING:
                return self.live_only
            case _:
                return question.loss is not None and question.loss.line == self.drop_from


class Opened(Struct, frozen=True, kw_only=True):
    """The tab to look at, and how it came about: attach, resume or wait."""

    tab: str
    plan: str
