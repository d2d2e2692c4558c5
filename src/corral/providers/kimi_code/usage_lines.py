"""The lines of kimi-code's event logs in which it records what it spent, as they are written."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct

from corral.model.usage import TokenUsage
from corral.providers.kimi_code.state import seconds
from corral.providers.kimi_code.usage_quick import LINE, USAGE_END
from corral.system.foreign_json import ForeignDecoder
from corral.system.log_records import LogForm

REQUEST_MARKERS = (b'"usage.record"', b'"llm.request"', b'"turn.prompt"', b'"turn.ended"')
_MARKERS = (*REQUEST_MARKERS, b'"tool.call"', b'"turn.steer"')
_RECORD_HEAD = re.compile(r'\{"type": ?"')
_is_marked = re.compile(b"|".join(map(re.escape, _MARKERS))).search
SHELLS = frozenset({"Bash", "Shell", "PowerShell"})

_Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class Usage(Struct, rename="camel"):
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


class _LoopEvent(Struct, rename="camel"):
    type: str
    uuid: str | None = None
    tool_call_id: str | None = None
    name: str | None = None


class Record(Struct, rename="camel"):
    type: str
    time: float | None = None
    agent_id: str | None = None
    model: str | None = None
    model_alias: str | None = None
    usage: Usage | None = None
    usage_scope: str | None = None
    turn_id: str | int | None = None
    prompt_id: str | None = None
    message_id: str | None = None
    event: _LoopEvent | None = None


class _Arguments(Struct):
    command: str


class _CallEvent(Struct):
    args: _Arguments


class _Call(Struct):
    event: _CallEvent


_CALL = ForeignDecoder(_Call)


def find_command(line: bytes) -> str | None:
    """What a shell tool was told to run; only for finding the program's name in it."""
    call = _CALL.decode(line)
    return call.event.args.command if call else None


def _has_time(record: Record) -> bool:
    return seconds(record.time) is not None


LOG = LogForm("kimi-code", ForeignDecoder(Record), _RECORD_HEAD, LINE, USAGE_END, _is_marked, _has_time)
