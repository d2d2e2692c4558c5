"""What one reading of a usage file gathers, and how foreign names become words that can be kept."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from corral.model.usage import Action, TokenUsage, Unrecorded, UsageBatch, UsageEvent, UsageSkip, UsageSource

Count = Annotated[int, Meta(ge=0, le=1 << 53)]
"""A number of tokens as others write it: anything else is damage."""
_LONGEST_WORD = 200
_PROGRAM = re.compile(
    r"""\s*(?:[A-Za-z_]\w*=(?:'[^']*'|"[^"\\]*"|[^\s'"\\;&|<>()$`]++)*+\s++)*+"""
    r"""((?:[\w.+@~-]*/)*+[\w.+-]{1,64})(?=[\s;&|<>()]|\Z)""",
    re.ASCII,
)


class Gathered:
    """A batch while it grows; everything in it belongs to the session of its file unless another is named."""

    def __init__(self, source: UsageSource, since: int) -> None:
        self._path = source.path
        self._session_id = source.session_id
        self._family = f"{source.family}/" if source.family else ""
        self.offset = since
        """Where the line begins that is being read."""
        self.next_offset = since
        self.events: list[UsageEvent] = []
        self.actions: list[Action] = []
        self.unrecorded: list[Unrecorded] = []
        self.skipped: list[UsageSkip] = []

    def spend(
        self,
        key: str,
        at: float,
        tokens: TokenUsage,
        *,
        agent: str | None = None,
        model: str | None = None,
        branch: str | None = None,
        session_id: str | None = None,
        stands_in: bool = False,
    ) -> None:
        owner = session_id or self._session_id
        event = UsageEvent(
            key=self._family + key,
            at=at,
            session_id=owner,
            agent=agent,
            model=model,
            tokens=tokens,
            branch=branch,
            stands_in=stands_in,
            offset=self.offset,
        )
        self.events.append(event)

    def act(self, key: str, at: float, kind: str, name: str = "", session_id: str | None = None) -> None:
        owner = session_id or self._session_id
        self.actions.append(
            Action(key=self._family + key, at=at, session_id=owner, kind=kind, name=name, offset=self.offset)
        )

    def leave(self, key: str, at: float, kind: str, session_id: str | None = None) -> None:
        """A request that left a trace and no tokens."""
        owner = session_id or self._session_id
        trace = Unrecorded(key=self._family + key, at=at, session_id=owner, kind=kind, offset=self.offset)
        self.unrecorded.append(trace)

    def skip(self, offset: int, reason: str) -> None:
        self.skipped.append(UsageSkip(path=self._path, offset=offset, reason=reason))

    def to_batch(self) -> UsageBatch:
        return UsageBatch(
            events=self.events,
            actions=self.actions,
            unrecorded=self.unrecorded,
            skipped=self.skipped,
            next_offset=self.next_offset,
        )


def clean_word(value: str | int | None) -> str:
    """A foreign name or id as text that can be stored anywhere."""
    if value is None:
        return ""
    if isinstance(value, str) and len(value) <= _LONGEST_WORD and value.isprintable():
        return value
    text = str(value)[:_LONGEST_WORD]
    return text if text.isprintable() else text.encode(errors="replace").decode().replace("\0", "?")


def join_counts(tokens: TokenUsage) -> str:
    """Counts as part of a key."""
    return f"{tokens.input},{tokens.output},{tokens.cache_read},{tokens.cache_write}"


def name_call(tool: str, command: str | None) -> str:
    """A tool's name; after it, where it ran a command, the program that comes first, without its path.

    Of the command nothing else is kept, and nothing at all when it does not begin with a plain word.
    """
    found = _PROGRAM.match(command[:4096]) if command else None
    return f"{tool} {found[1].rpartition('/')[2]}" if found else tool
