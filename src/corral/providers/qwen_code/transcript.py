"""One Qwen transcript: what its head and its tail say, and whether its chain of records is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

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
_CHAIN_BUDGET = 256 << 20


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
    calls_tool: bool = False
    """The tail is a tool call without result."""
    damaged: bool = False
    """A line that was ended could not be read."""
    branched: bool = False
    """Near the end two messages follow the same one: two processes wrote, and a resume drops one branch."""
    notes: tuple[str, ...] = ()


class ChainFacts(Struct, frozen=True, kw_only=True):
    """What Qwen would take up on a resume."""

    records: int
    """Readable ones."""
    reachable: int
    """Those on the way from the last record back to the beginning, or to a gap."""
    gap: bool
    """The way back ends at a record that is missing: all before it would be lost, without a word."""
    sessions: tuple[str, ...]
    """Every session id that the records name; more than one, and Qwen refuses the file."""
    complete: bool = True
    """False when the file is too large to be checked."""


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
        calls_tool=tail.calls_tool,
        damaged=head.damaged or tail.damaged,
        branched=tail.branched,
        notes=(*head.notes, *tail.notes),
    )


def read_chain(path: str) -> ChainFacts | Unreadable:
    """Walks the records as `qwen --resume` does: from the last one back by parentUuid, until one is missing.

    qwen 0.24.4, tried 2026-11: a destroyed record costs everything before it, with exit code 0; a foreign
    line between records costs nothing; two records glued on one line are both read.
    """
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return transcript
    parents: dict[str, str | None] = {}
    sessions: dict[str, None] = {}
    last: str | None = None
    count = 0
    with transcript:
        for line in transcript.forward(_CHAIN_BUDGET):
            for link in _links(line.data):
                if link.type not in _TYPES or not link.uuid or not link.sessionId or link.parentUuid is UNSET:
                    continue
                count += 1
                sessions[link.sessionId] = None
                if link.type == "system" and link.subtype in _ASIDE:
                    continue
                parents.setdefault(link.uuid, link.parentUuid)
                last = link.uuid
        complete = not transcript.exhausted
    reached: set[str] = set()
    gap = False
    while last is not None and last not in reached:
        if last not in parents:
            gap = True
            break
        reached.add(last)
        last = parents[last] or None
    return ChainFacts(records=count, reachable=len(reached), gap=gap, sessions=tuple(sessions), complete=complete)


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
        if record.type not in _TYPES:
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
        if record.type not in _TYPES:
            continue
        if record.parentUuid is not None and record.type != "system":
            tail.branched = tail.branched or record.parentUuid in parents
            parents.add(record.parentUuid)
        tail.newest = tail.newest or record
        if record.type == "system":
            if tail.title is None and record.subtype == "custom_title":
                tail.title = _find_title(line.data)
            if not decided and record.subtype in _TURN_ENDS:
                decided, tail.turn = True, TurnState.ENDED
            continue
        if not decided:
            decided = True
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


def _prompt_text(record: _Record, data: bytes) -> str | None:
    # What the person typed, where a hook or a command has added to it (qwen 0.24.4, 2026-11).
    if b'"displayText"' in data and (shown := _SHOWN.decode(data)):
        return one_line(shown.systemPayload.displayText)
    for part in record.parts:
        if part.text and (text := one_line(part.text)):
            return text
    return None


def _links(data: bytes) -> Iterator[_Link]:
    link = _LINK.decode(data)
    if link is not None:
        yield link
        return
    # Two writers can leave `{…}{…}` on one line; Qwen reads both.
    text = data.decode("utf-8", "replace")
    import json

    decoder = json.JSONDecoder()
    position = 0
    while (position := text.find("{", position)) >= 0:
        try:
            value: Any
            value, position = decoder.raw_decode(text, position)
            yield msgspec.convert(value, _Link)
        except (ValueError, RecursionError):
            return
        except msgspec.ValidationError:
            continue


def _seconds(timestamp: str | None) -> float | None:
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_TURN_ENDS = frozenset({"turn_result", "rewind"})
"""`turn_result`: the ACP server writes it at the end of a turn. `rewind`: only possible between turns."""
_ASIDE = frozenset(
    {
        "session_artifact_event",
        "session_artifact_snapshot",
        "session_sources_snapshot",
        "managed_session_header_v1",
        "managed_session_event_v1",
        "managed_session_commit_v1",
    }
)
"""Kinds of `system` records that Qwen keeps out of the chain."""


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


class _Link(Struct):
    uuid: str | None = None
    parentUuid: str | UnsetType | None = UNSET
    sessionId: str | None = None
    type: str | None = None
    subtype: str | None = None


_RECORD = ForeignDecoder(_Record)
_TITLED = ForeignDecoder(_Titled)
_SHOWN = ForeignDecoder(_Shown)
_LINK = ForeignDecoder(_Link)
