"""One Qwen transcript: what its head and its tail say."""

from __future__ import annotations

import re
from datetime import datetime

from msgspec import Struct

from corral.model.record import TurnState
from corral.system.foreign_json import ForeignDecoder
from corral.system.text import one_line
from corral.system.transcripts import TAIL_BUDGET, Transcript, Unreadable, open_transcript

HEAD_BUDGET = 16 << 20
"""A first prompt with a pasted image is several megabytes on one line; reading stops once it was read."""
_TITLE_WINDOW = 64 << 10
"""Qwen itself looks for a custom title this far from either end, and repeats the title near the end."""
_HEAD_LINES = 200
_SLASH_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(\s|\Z)")


class TranscriptFacts(Struct, frozen=True, kw_only=True):
    """What a bounded look at one transcript found. Times are epoch seconds."""

    size: int
    readable: bool
    """At least one record was read, or one may lie beyond the budget."""
    session_id: str | None = None
    """As the first record says."""
    work_dir: str | None = None
    created_at: float | None = None
    updated_at: float | None = None
    first_prompt: str | None = None
    custom_title: str | None = None
    forked_from: str | None = None
    turn: TurnState = TurnState.NONE
    turn_started_at: float | None = None
    unfinished: str | None = None
    git_branch: str | None = None
    """As the last message says: Qwen looks it up once per run."""
    calls_tool: bool = False
    """The tail is a tool call without result."""
    damaged: bool = False
    """A line that was ended could not be read."""
    branched: bool = False
    """Near the end two messages follow the same one: two processes wrote, and a resume drops one branch."""
    notes: tuple[str, ...] = ()


def read_transcript(path: str) -> TranscriptFacts | Unreadable:
    """Head and tail of the transcript at `path`, each within its budget."""
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return transcript
    with transcript:
        head = _read_head(transcript)
        tail = _read_tail(transcript)
    return TranscriptFacts(
        size=transcript.size,
        readable=head.first is not None or tail.newest is not None or tail.cut,
        session_id=head.first.sessionId if head.first else None,
        work_dir=head.first.cwd if head.first else None,
        created_at=_seconds(head.first.timestamp) if head.first else None,
        updated_at=_seconds(tail.newest.timestamp) if tail.newest else None,
        first_prompt=head.prompt,
        custom_title=tail.title or head.title,
        forked_from=head.first.forkedFrom.sessionId if head.first and head.first.forkedFrom else None,
        turn=tail.turn,
        turn_started_at=tail.prompt_at if tail.turn is TurnState.OPEN else None,
        unfinished=tail.prompt if tail.turn is TurnState.OPEN else None,
        git_branch=tail.git_branch,
        calls_tool=tail.calls_tool,
        damaged=head.damaged or tail.damaged,
        branched=tail.branched,
        notes=(*head.notes, *tail.notes),
    )


class _Head(Struct):
    first: _Record | None = None
    prompt: str | None = None
    title: str | None = None
    damaged: bool = False
    notes: tuple[str, ...] = ()


class _Tail(Struct):
    newest: _Record | None = None
    turn: TurnState = TurnState.NONE
    calls_tool: bool = False
    prompt: str | None = None
    prompt_at: float | None = None
    title: str | None = None
    git_branch: str | None = None
    cut: bool = False
    """The budget ended before the beginning of the file."""
    damaged: bool = False
    branched: bool = False
    notes: tuple[str, ...] = ()


def _read_head(transcript: Transcript) -> _Head:
    head = _Head()
    for number, line in enumerate(transcript.forward(HEAD_BUDGET)):
        if number >= _HEAD_LINES or (head.prompt and line.offset > _TITLE_WINDOW):
            return head
        record = _RECORD.decode(line.data)
        if record is None:
            head.damaged = head.damaged or line.ended
            continue
        if record.type not in RECORD_TYPES:
            continue
        head.first = head.first or record
        if record.type == "system" and record.subtype == "custom_title":
            head.title = _find_title(line.data) or head.title
        elif head.prompt is None and record.is_prompt:
            text = _prompt_text(record, line.data)
            head.prompt = text if text and not _SLASH_COMMAND.match(text) else None
    if head.first is None and transcript.exhausted:
        head.notes = (f"the first record lies beyond {HEAD_BUDGET >> 20} MiB and was not read",)
    return head


def _read_tail(transcript: Transcript) -> _Tail:
    tail = _Tail()
    decided = False
    parents: set[str] = set()
    """Of the messages only: a rewind or a rename also continues from an earlier record, as `system`."""
    for line in transcript.backward(TAIL_BUDGET):
        if (
            decided
            and (tail.turn is not TurnState.OPEN or tail.prompt)
            and line.offset < transcript.size - _TITLE_WINDOW
        ):
            break
        record = _RECORD.decode(line.data)
        if record is None:
            tail.damaged = tail.damaged or line.ended
            continue
        if record.type not in RECORD_TYPES:
            continue
        if record.parentUuid is not None and record.type != "system":
            tail.branched = tail.branched or record.parentUuid in parents
            parents.add(record.parentUuid)
        tail.newest = tail.newest or record
        if record.type == "system":
            if tail.title is None and record.subtype == "custom_title":
                tail.title = _find_title(line.data)
            if not decided and record.subtype in _TURN_ENDS:
                decided, tail.turn, tail.git_branch = True, TurnState.ENDED, _branch(record)
            continue
        if not decided:
            decided, tail.git_branch = True, _branch(record)
            calls = record.calls_tool
            answered = record.type == "assistant" and not calls
            tail.turn, tail.calls_tool = (TurnState.ENDED if answered else TurnState.OPEN), calls
        if tail.turn is TurnState.OPEN and tail.prompt is None and record.is_prompt:
            tail.prompt = _prompt_text(record, line.data)
            tail.prompt_at = _seconds(record.timestamp)
    tail.cut = transcript.exhausted
    if not decided and tail.cut:
        tail.turn = TurnState.UNREADABLE
        tail.notes = (f"no message within the last {TAIL_BUDGET >> 20} MiB",)
    elif not decided and tail.damaged:
        tail.turn = TurnState.UNREADABLE
    return tail


def _find_title(data: bytes) -> str | None:
    titled = _TITLED.decode(data)
    return one_line(titled.systemPayload.customTitle) if titled else None


def _branch(record: _Record) -> str | None:
    return one_line(record.gitBranch) if record.gitBranch else None


def _prompt_text(record: _Record, data: bytes) -> str | None:
    # What the person typed, where a hook or a command has added to it (qwen 0.24.4, 2026-11).
    if b'"displayText"' in data and (shown := _SHOWN.decode(data)):
        return one_line(shown.systemPayload.displayText)
    for part in record.parts:
        if part.text and (text := one_line(part.text)):
            return text
    return None


def _seconds(timestamp: str | None) -> float | None:
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


RECORD_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_TURN_ENDS = frozenset({"turn_result", "rewind"})
"""`turn_result`: the ACP server writes it at the end of a turn. `rewind`: only possible between turns."""


class _Call(Struct):
    """Nothing of a tool call is kept: that there is one is enough."""


class _Part(Struct):
    text: str | None = None
    functionCall: _Call | None = None


class _Message(Struct):
    parts: tuple[_Part, ...] | None = None


class _Fork(Struct):
    sessionId: str | None = None


class _Record(Struct):
    type: str
    parentUuid: str | None = None
    sessionId: str | None = None
    subtype: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    gitBranch: str | None = None
    message: _Message | None = None
    forkedFrom: _Fork | None = None

    @property
    def is_prompt(self) -> bool:
        """Typed by a person: notifications and messages that steer a running turn have a subtype."""
        return self.type == "user" and self.subtype is None

    @property
    def calls_tool(self) -> bool:
        return self.type == "assistant" and any(part.functionCall is not None for part in self.parts)

    @property
    def parts(self) -> tuple[_Part, ...]:
        return (self.message.parts if self.message else None) or ()


class _Title(Struct):
    customTitle: str


class _Titled(Struct):
    systemPayload: _Title


class _Display(Struct):
    displayText: str


class _Shown(Struct):
    systemPayload: _Display


_RECORD = ForeignDecoder(_Record)
_TITLED = ForeignDecoder(_Titled)
_SHOWN = ForeignDecoder(_Shown)
