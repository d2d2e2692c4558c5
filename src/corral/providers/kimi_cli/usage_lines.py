"""The lines of kimi-cli's event logs in which it records what it spent, as they are written."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct

from corral.model.usage import TokenUsage
from corral.providers.kimi_cli.usage_quick import LINE, USAGE_END
from corral.system.foreign_json import ForeignDecoder
from corral.system.log_records import LogForm

_LATEST = 1e11  # epoch seconds; larger numbers are milliseconds
_USAGE_MARKER = b'"token_usage"'
STEP_MARKERS = (_USAGE_MARKER, b'"StepBegin"', b'"TurnBegin"', b'"TurnEnd"', b'"StepInterrupted"')
_MARKERS = (*STEP_MARKERS, b'"ToolCall"', b'"SteerInput"', b'"CompactionBegin"', b'"BtwBegin"', b'"ToolCallRequest"')
_RECORD_HEAD = re.compile(r'\{"timestamp": ?[-+.0-9eE]+, ?"message": ?\{"type"')
_is_marked = re.compile(b"|".join(map(re.escape, _MARKERS))).search
SHELLS = frozenset({"Shell", "Bash", "CMD", "PowerShell"})

_Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class Usage(Struct):
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


class _Function(Struct):
    name: str | None = None


class Payload(Struct):
    token_usage: Usage | None = None
    message_id: str | int | None = None
    id: str | int | None = None
    name: str | None = None
    function: _Function | None = None
    agent_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: Message | None = None


class Message(Struct):
    type: str
    payload: Payload


class Record(Struct):
    message: Message
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


_CALL = ForeignDecoder(_CallRecord)
_ARGUMENTS = ForeignDecoder(_Arguments)


def unwrap(message: Message) -> tuple[str | None, str | None, Message]:
    """The sub-agent's id, else the call that older versions name it by, and the event itself."""
    agent = legacy = None
    while message.type == "SubagentEvent":
        payload = message.payload
        if payload.event is None:
            break
        agent, legacy = payload.agent_id, payload.task_tool_call_id or payload.parent_tool_call_id
        message = payload.event
    return agent, legacy, message


def find_command(line: bytes) -> str | None:
    """What a shell tool was told to run; only for finding the program's name in it."""
    record = _CALL.decode(line)
    payload = record.message.payload if record else None
    while payload is not None and payload.event is not None:
        payload = payload.event.payload
    if payload is None:
        return None
    text = payload.function.arguments if payload.function else payload.arguments
    arguments = _ARGUMENTS.decode(text.encode(errors="replace")) if text else None
    return arguments.command if arguments else None


def find_seconds(stamp: float | None) -> float | None:
    if stamp is None:
        return None
    at = stamp / 1000 if stamp >= _LATEST else stamp
    return at if 0 < at < _LATEST else None


def _has_time(record: Record) -> bool:
    return find_seconds(record.timestamp) is not None


LOG = LogForm("kimi-cli", ForeignDecoder(Record), _RECORD_HEAD, LINE, USAGE_END, _is_marked, _has_time)
