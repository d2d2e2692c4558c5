"""What came of opening a tab or a session, and what a person has agreed to beforehand."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from corral.model.restore import Refusal, Refused

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
