"""What kimi-cli's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import Deed, TokenUsage, Unrecorded, UsageBatch, UsageEvent, UsageSkip, UsageSource
from corral.providers.kimi_cli.places import NAME, list_buckets
from corral.providers.kimi_cli.registry import LOCAL, read_registry
from corral.sidecar.files import Unreadable, open_regular
from corral.system.blocks import LARGEST_LINE, Block, read_blocks
from corral.system.foreign_json import ForeignDecoder
from corral.system.transcripts import TAIL_BUDGET, open_transcript

UNRECORDED_KINDS: tuple[str, ...] = (
    "side questions (/btw) asked in the terminal",
    "session titles made by the web interface",
    "attempts that failed and were repeated",
    "the last turn of a killed process, until the session goes on",
)
"""Calls that kimi-cli 1.51 makes and that leave no trace in its logs (2026-11)."""

_LATEST = 1e11  # epoch seconds; larger numbers are milliseconds
_LONGEST_WORD = 200
_USAGE_MARKER = b'"token_usage"'
_STEP_MARKERS = (_USAGE_MARKER, b'"StepBegin"', b'"TurnBegin"', b'"TurnEnd"', b'"StepInterrupted"')
_MARKERS = (*_STEP_MARKERS, b'"ToolCall"', b'"SteerInput"', b'"CompactionBegin"', b'"BtwBegin"', b'"ToolCallRequest"')
_DULL = (
    rb'"(?:ContentPart|ToolResult|ToolCallPart|ApprovalRequest|ApprovalResponse|QuestionRequest|Notification'
    rb'|HookTriggered|HookResolved|PlanDisplay|CompactionEnd)"'
)
_DULL_HEAD = (
    rb'\{"timestamp": ?[-+.0-9eE]+, ?"message": ?\{"type": ?(?:'
    + _DULL
    + rb'|"SubagentEvent", ?"payload": ?\{(?:"[a-z_]+": ?(?:"[^"\\\n]*"|null), ?)*+"event": ?\{"type": ?'
    + _DULL
    + rb")"
)
"""Only a short cut over the layout that kimi-cli writes: what it does not match is decoded or searched for markers."""
_is_dull = re.compile(_DULL_HEAD).match
_find_start = re.compile(rb"\n(?!\Z|" + _DULL_HEAD + rb")").search
_is_marked = re.compile(b"|".join(map(re.escape, _MARKERS))).search
_SHORT = 16 << 10
"""A line shorter than this is decoded at once; a longer one only if it has a marker."""
_SHELLS = frozenset({"Shell", "Bash", "CMD", "PowerShell"})
_PROGRAM = re.compile(
    r"""\s*(?:[A-Za-z_]\w*=(?:'[^']*'|"[^"\\]*"|[^\s'"\\;&|<>()$`]++)*+\s++)*+"""
    r"""((?:[\w.+@~-]*/)*+[\w.+-]{1,64})(?=[\s;&|<>()]|\Z)""",
    re.ASCII,
)

_Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class _Usage(Struct):
    input_other: _Count
    output: _Count
    input_cache_read: _Count = 0
    input_cache_creation: _Count = 0

    @property
    def tokens(self) -> TokenUsage:
        return TokenUsage(
            input=self.input_other,
            cache_read=self.input_cache_read,
            cache_write=self.input_cache_creation,
            output=self.output,
        )

    @property
    def key(self) -> str:
        return f"{self.input_other},{self.output},{self.input_cache_read},{self.input_cache_creation}"


class _Function(Struct):
    name: str | None = None


class _Payload(Struct):
    token_usage: _Usage | None = None
    message_id: str | int | None = None
    id: str | int | None = None
    name: str | None = None
    function: _Function | None = None
    agent_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: _Message | None = None


class _Message(Struct):
    type: str
    payload: _Payload


class _Record(Struct):
    message: _Message
    timestamp: float | None = None


class _CallFunction(Struct):
    arguments: str | None = None


class _CallPayload(Struct):
    arguments: str | None = None
    function: _CallFunction | None = None
    event: _CallMessage | None = None


class _CallMessage(Struct):
    payload: _CallPayload


class _CallRecord(Struct):
    message: _CallMessage


class _Arguments(Struct):
    command: str


_RECORD = ForeignDecoder(_Record)
_CALL = ForeignDecoder(_CallRecord)
_ARGUMENTS = ForeignDecoder(_Arguments)


def list_usage_sources(home: Home) -> Iterator[UsageSource]:
    """The log of every session and of every sub-agent that has one; links and FIFOs are none."""
    by_bucket = read_registry(home.path).by_bucket
    for bucket in list_buckets(home.path):
        if isinstance(bucket, Skipped):
            continue
        known = by_bucket.get(bucket.name)
        work_dir = known.path if known is not None and known.kaos == LOCAL else None
        for session_id in bucket.directories:
            for path, agent in _list_logs(f"{bucket.path}/{session_id}"):
                yield UsageSource(
                    provider=NAME,
                    home=home.path,
                    scope=bucket.name,
                    session_id=session_id,
                    path=path,
                    agent=agent,
                    work_dir=work_dir,
                )


def _list_logs(session: str) -> Iterator[tuple[str, str | None]]:
    for entry in _scan(session):
        if entry.name == "wire.jsonl" and entry.is_file(follow_symlinks=False):
            yield entry.path, None
        elif entry.name == "subagents" and entry.is_dir(follow_symlinks=False):
            for agent in _scan(entry.path):
                if agent.is_dir(follow_symlinks=False) and is_valid_id(agent.name):
                    for log in _scan(agent.path):
                        if log.name == "wire.jsonl" and log.is_file(follow_symlinks=False):
                            yield log.path, agent.name


def _scan(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def read_usage(source: UsageSource, since: int) -> UsageBatch:
    """All that was appended from `since` to the last whole line."""
    return _Reading(source, since).read(None).batch()


def _find_lines(block: Block) -> Iterator[tuple[int, bytes]]:
    """Lines that may matter, with their place in the block."""
    data, length = block.data, block.length
    start = 0
    while True:
        stop = data.find(b"\n", start, length)
        if start or not _is_dull(data, 0, length):
            yield start, bytes(data[start:stop])
        found = _find_start(data, stop, length)
        if found is None:
            return
        start = found.end()


class _Reading:
    """One pass over one file, and what it has to know of the lines before."""

    def __init__(self, source: UsageSource, since: int) -> None:
        self._source = source
        self._since = since
        self._events: list[UsageEvent] = []
        self._deeds: list[Deed] = []
        self._unrecorded: list[Unrecorded] = []
        self._skipped: list[UsageSkip] = []
        self._offset = since
        self._next_offset = since
        self._open_step: float | None = None
        self._knows_step = since == 0
        """False while only the lines before `since` tell whether a step is open."""
        self._calls: set[str] = set()
        """Ids of the turn's tool calls."""
        self._knows_turn = since == 0
        self._repeats: dict[str, int] | None = {} if since == 0 else None

    def batch(self) -> UsageBatch:
        return UsageBatch(
            events=self._events,
            deeds=self._deeds,
            unrecorded=self._unrecorded,
            skipped=self._skipped,
            next_offset=self._next_offset,
        )

    def read(self, stop: int | None) -> _Reading:
        fd = open_regular(self._source.path)
        if isinstance(fd, Unreadable):
            self._skip(self._since, f"can't be read: {fd.reason}")
            return self
        with io.FileIO(fd) as file:
            end = os.fstat(fd).st_size if stop is None else stop
            for block in read_blocks(file, self._since, end):
                self._take_block(block)
                self._next_offset = block.end
        return self

    def _take_block(self, block: Block) -> None:
        if block.too_long:
            if not _is_dull(block.data):
                self._skip(block.offset, f"a line longer than {LARGEST_LINE >> 20} MiB")
            return
        for start, line in _find_lines(block):
            if len(line) < _SHORT or _is_marked(line):
                self._take_line(line, block.offset + start)

    def _take_line(self, line: bytes, offset: int) -> None:
        self._offset = offset
        record = _RECORD.decode(line)
        if record is None:
            if _is_marked(line):
                self._skip(offset, "not a record that kimi-cli writes, or its numbers are none")
            return
        message, stamp = record.message, record.timestamp
        at = _seconds(stamp)
        if message.type == "SubagentEvent":
            self._take_mirror(message, stamp, at, line, offset)
        elif at is None or stamp is None:
            if message.type == "StatusUpdate" and message.payload.token_usage is not None:
                self._skip(offset, "usage without a time")
        else:
            self._take(message, stamp, at, line)

    def _take(self, message: _Message, stamp: float, at: float, line: bytes) -> None:
        match message.type:
            case "StatusUpdate":
                self._take_status(message.payload, stamp, at)
            case "StepBegin":
                self._open_step, self._knows_step = stamp, True
            case "StepInterrupted":
                self._open_step, self._knows_step = None, True  # the request failed
            case "TurnEnd":
                self._close_step("interrupted turn")
            case "TurnBegin":
                self._close_step("killed turn")
                self._calls, self._knows_turn = set(), True
                self._take_turn(message, stamp, at)
            case "SteerInput":
                self._take_turn(message, stamp, at)
            case "ToolCall" | "ToolCallRequest":
                self._take_call(message, stamp, at, line)
            case "CompactionBegin":
                self._leave(f"compaction:{stamp!r}", at, "compaction")
            case "BtwBegin":
                self._leave(f"btw:{stamp!r}:{_word(message.payload.id)}", at, "side question")
            case _:
                pass

    def _take_turn(self, message: _Message, stamp: float, at: float) -> None:
        if self._source.agent is None:  # what a sub-agent is told is part of its parent's turn
            self._do(f"turn:{stamp!r}:{message.type}", at, "turn")

    def _take_status(self, payload: _Payload, stamp: float, at: float) -> None:
        usage, agent = payload.token_usage, self._source.agent
        if usage is not None:
            self._open_step, self._knows_step = None, True
            key = self._key(payload, stamp) if agent is None else self._agent_key(payload, agent)
            self._spend(key, at, agent, usage)
        elif payload.message_id is not None:
            self._open_step, self._knows_step = None, True
            self._leave(f"unmeasured:{stamp!r}", at, "request without usage")

    def _take_mirror(self, message: _Message, stamp: float | None, at: float | None, line: bytes, offset: int) -> None:
        """A sub-agent's event in its parent's log. Since 1.25 the sub-agent has a log of its own as well."""
        agent, legacy, inner = _unwrap(message)
        usage = inner.payload.token_usage if inner.type == "StatusUpdate" else None
        if at is None or stamp is None:
            if usage is not None:
                self._skip(offset, "usage without a time")
        elif usage is not None:
            key = self._key(inner.payload, stamp) if agent is None else self._agent_key(inner.payload, agent)
            self._spend(key, at, agent or legacy, usage)
        elif inner.type == "ToolCall":
            self._do_call(inner, agent, stamp, at, line)
        elif inner.type == "CompactionBegin" and agent is None:
            self._leave(f"compaction:{stamp!r}", at, "compaction")

    def _take_call(self, message: _Message, stamp: float, at: float, line: bytes) -> None:
        call = _word(message.payload.id)
        if message.type == "ToolCall":
            self._calls.add(call)
        elif call in self._calls or self._was_called(call):
            return  # the same call, handed to the client that is to carry it out
        self._do_call(message, self._source.agent, stamp, at, line)

    def _do_call(self, message: _Message, agent: str | None, stamp: float, at: float, line: bytes) -> None:
        payload = message.payload
        name = _word((payload.function.name if payload.function else None) or payload.name)
        call = _word(payload.id)
        key = f"tool:{stamp!r}:{call}" if agent is None else f"tool:{_word(agent)}:{call}:{name}"
        program = _find_program(line) if name in _SHELLS else ""
        self._do(key, at, "tool", f"{name} {program}" if program else name)

    def _key(self, payload: _Payload, stamp: float) -> str:
        usage = payload.token_usage.key if payload.token_usage else ""
        if payload.message_id is None:
            return f"t:{stamp!r}:{usage}"
        return f"m:{_word(payload.message_id)}:{stamp!r}:{usage}"

    def _agent_key(self, payload: _Payload, agent: str) -> str:
        """The same for a sub-agent's own record and its mirror, whose times differ."""
        usage = payload.token_usage.key if payload.token_usage else ""
        if payload.message_id is not None:
            return f"a:{_word(agent)}:{_word(payload.message_id)}:{usage}"
        # Without an id the n-th of equal usages in one log is the n-th of them in the other.
        if self._repeats is None:
            self._repeats = dict(_Reading(self._source, 0).read(self._since)._repeats or {})
        key = f"n:{_word(agent)}:{usage}"
        count = self._repeats[key] = self._repeats.get(key, 0) + 1
        return f"{key}#{count}"

    def _close_step(self, kind: str) -> None:
        if not self._knows_step:
            self._open_step = self._find_open_step()
        at = _seconds(self._open_step)
        if at is not None:
            self._leave(f"step:{self._open_step!r}", at, kind)
        self._open_step, self._knows_step = None, True

    def _find_open_step(self) -> float | None:
        """When the step began that no line before this reading has ended."""
        for record in self._earlier(_STEP_MARKERS):
            payload = record.message.payload
            match record.message.type:
                case "StepBegin":
                    return record.timestamp
                case "TurnBegin" | "TurnEnd" | "StepInterrupted":
                    return None
                case "StatusUpdate" if payload.token_usage is not None or payload.message_id is not None:
                    return None
                case _:
                    pass
        return None

    def _was_called(self, call: str) -> bool:
        if self._knows_turn:
            return False
        for record in self._earlier((b'"ToolCall"', b'"TurnBegin"')):
            if record.message.type == "TurnBegin":
                return False
            if record.message.type == "ToolCall" and _word(record.message.payload.id) == call:
                return True
        return False

    def _earlier(self, markers: tuple[bytes, ...]) -> Iterator[_Record]:
        """Records before this reading, the last first."""
        transcript = open_transcript(self._source.path)
        if isinstance(transcript, Unreadable):
            return
        with transcript:
            transcript.size = min(transcript.size, self._since)
            for line in transcript.backward(TAIL_BUDGET):
                if not _is_dull(line.data) and any(marker in line.data for marker in markers):
                    record = _RECORD.decode(line.data)
                    if record is not None and _seconds(record.timestamp) is not None:
                        yield record

    def _spend(self, key: str, at: float, agent: str | None, usage: _Usage) -> None:
        event = UsageEvent(
            key=key,
            at=at,
            session_id=self._source.session_id,
            agent=None if agent is None else _word(agent),
            model=None,
            tokens=usage.tokens,
            offset=self._offset,
        )
        self._events.append(event)

    def _do(self, key: str, at: float, kind: str, name: str = "") -> None:
        session_id, offset = self._source.session_id, self._offset
        self._deeds.append(Deed(key=key, at=at, session_id=session_id, kind=kind, name=name, offset=offset))

    def _leave(self, key: str, at: float, kind: str) -> None:
        session_id, offset = self._source.session_id, self._offset
        self._unrecorded.append(Unrecorded(key=key, at=at, session_id=session_id, kind=kind, offset=offset))

    def _skip(self, offset: int, reason: str) -> None:
        self._skipped.append(UsageSkip(path=self._source.path, offset=offset, reason=reason))


def _unwrap(message: _Message) -> tuple[str | None, str | None, _Message]:
    """The sub-agent's id, else the call that older versions name it by, and the event itself."""
    agent = legacy = None
    while message.type == "SubagentEvent":
        payload = message.payload
        if payload.event is None:
            break
        agent, legacy = payload.agent_id, payload.task_tool_call_id or payload.parent_tool_call_id
        message = payload.event
    return agent, legacy, message


def _find_program(line: bytes) -> str:
    """What a shell command runs first, without its path; nothing when that is no plain word."""
    record = _CALL.decode(line)
    payload = record.message.payload if record else None
    while payload is not None and payload.event is not None:
        payload = payload.event.payload
    if payload is None:
        return ""
    text = payload.function.arguments if payload.function else payload.arguments
    arguments = _ARGUMENTS.decode(text.encode(errors="replace")) if text else None
    found = _PROGRAM.match(arguments.command[:4096]) if arguments else None
    return found[1].rpartition("/")[2] if found else ""


def _word(value: str | int | None) -> str:
    """A foreign name or id as text that can be stored anywhere."""
    if value is None:
        return ""
    text = str(value)[:_LONGEST_WORD]
    return text if text.isprintable() else text.encode(errors="replace").decode().replace("\0", "?")


def _seconds(stamp: float | None) -> float | None:
    if stamp is None:
        return None
    at = stamp / 1000 if stamp >= _LATEST else stamp
    return at if 0 < at < _LATEST else None
