"""The lines in which Qwen Code records what it spent, as they are written, and what their counts mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, field

from corral.model.usage import TokenUsage
from corral.providers.qwen_code.places import is_session_id
from corral.system.foreign_json import ForeignDecoder

RECORD_HEAD = re.compile(r'\{"uuid": ?"')
MONTH_HEAD = re.compile(r'\{"schemaVersion"|\{"id": ?"|\{"inputTokens"')

_MOST_TOKENS = 1 << 40
"""More than any request has: a count beyond it is damage."""
_EARLY = 320
"""Qwen writes a record's type this early, before anything of a tool."""
_SLASH_COMMAND = re.compile(r"\s*/[A-Za-z][\w:.-]*(\s|\Z)")
_TURNS = frozenset({None, "mid_turn_user_message"})
"""A prompt, and a message that steers a running turn. Notifications and scheduled prompts have other subtypes."""
_CACHED_EXCEEDS = "counted, but it names more cached input than input"
_THOUGHTS_EXCEED = "counted, but it names more reasoning than output"


class Counts(Struct, frozen=True):
    """Token counts as Qwen writes them: cached within input, reasoning within output (but see `_beside`)."""

    input: int
    output: int
    cached: int
    thoughts: int
    total: int

    @property
    def possible(self) -> bool:
        counts = (self.input, self.output, self.cached, self.thoughts, self.total)
        return all(0 <= count <= _MOST_TOKENS for count in counts)

    @property
    def known(self) -> bool:
        """False where the model's server named no tokens, or only their sum."""
        return bool(self.input or self.output or self.cached or self.thoughts)

    @property
    def contradictions(self) -> Iterator[str]:
        if self.cached > self._whole_input:
            yield _CACHED_EXCEEDS
        if self.thoughts > self.output and not self._beside:
            yield _THOUGHTS_EXCEED

    def to_tokens(self) -> TokenUsage:
        cached = min(self.cached, self._whole_input)
        inside = 0 if self._beside else min(self.thoughts, self.output)
        return TokenUsage(
            input=self._whole_input - cached,
            cache_read=cached,
            output=self.output - inside,
            reasoning=self.thoughts if self._beside else inside,
        )

    @property
    def _whole_input(self) -> int:
        return self.input or self.cached

    @property
    def _beside(self) -> bool:
        """Gemini's own servers count reasoning beside the output; then only the recorded sum adds up so."""
        return self.thoughts > 0 and self.total == self._whole_input + self.output + self.thoughts


class UiEvent(Struct):
    name: str | None = field(name="event.name", default=None)
    timestamp: str | None = field(name="event.timestamp", default=None)
    response_id: str | None = None
    model: str | None = None
    input_token_count: int | None = None
    output_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None
    subagent_id: str | None = None
    subagent_name: str | None = None
    function_name: str | None = None

    @property
    def counts(self) -> Counts:
        return Counts(
            self.input_token_count or 0,
            self.output_token_count or 0,
            self.cached_content_token_count or 0,
            self.thoughts_token_count or 0,
            self.total_token_count or 0,
        )


class _Payload(Struct):
    uiEvent: UiEvent | None = None


class _Part(Struct):
    text: str | None = None


class _Message(Struct):
    parts: tuple[_Part, ...] | None = None


class _Usage(Struct):
    """That it is there is enough: its tokens are those of the telemetry."""


class _Fork(Struct):
    sessionId: str | None = None

    @property
    def origin(self) -> str | None:
        return self.sessionId.lower() if self.sessionId and is_session_id(self.sessionId) else None


class Record(Struct):
    type: str
    uuid: str | None = None
    parentUuid: str | None = None
    subtype: str | None = None
    timestamp: str | None = None
    gitBranch: str | None = None
    message: _Message | None = None
    systemPayload: _Payload | None = None
    usageMetadata: _Usage | None = None
    forkedFrom: _Fork | None = None

    @property
    def is_turn(self) -> bool:
        parts = (self.message.parts if self.message else None) or ()
        text = next((part.text for part in parts if part.text and not part.text.isspace()), None)
        return self.subtype in _TURNS and text is not None and not _SLASH_COMMAND.match(text)

    @property
    def origin(self) -> str | None:
        """Of a fork's copy, the session that it was copied from."""
        return self.forkedFrom.origin if self.forkedFrom else None


class First(Struct):
    cwd: str | None = None
    forkedFrom: _Fork | None = None

    @property
    def origin(self) -> str | None:
        return self.forkedFrom.origin if self.forkedFrom else None


class _ShellArgs(Struct):
    command: str


class _ShellEvent(Struct):
    function_args: _ShellArgs


class _ShellPayload(Struct):
    uiEvent: _ShellEvent


class _ShellCall(Struct):
    systemPayload: _ShellPayload


class MonthLine(Struct):
    id: str
    sessionId: str
    timestamp: str
    inputTokens: int
    outputTokens: int
    cachedTokens: int = 0
    thoughtsTokens: int = 0
    totalTokens: int = 0
    model: str | None = None
    source: str = "main"

    @property
    def counts(self) -> Counts:
        return Counts(self.inputTokens, self.outputTokens, self.cachedTokens, self.thoughtsTokens, self.totalTokens)


RECORD = ForeignDecoder(Record)
FIRST = ForeignDecoder(First)
MONTH_LINE = ForeignDecoder(MonthLine)
_SHELL_CALL = ForeignDecoder(_ShellCall)


def is_tool_result(data: bytes | bytearray) -> bool:
    return data.find(b'"type":"tool_result"', 0, _EARLY) >= 0


def may_matter(data: bytes | bytearray) -> bool:
    """Whether a line can hold a record that is counted. A quote within a text is escaped: these are real names."""
    if is_tool_result(data) and data.find(b'{"uuid"', 1) < 0:
        return False
    return b'"ui_telemetry"' in data or b'"user"' in data or (b'"assistant"' in data and b'"usageMetadata"' not in data)


def find_command(data: bytes) -> str | None:
    """What a shell tool was told to run; only for finding the program's name in it."""
    shell = _SHELL_CALL.decode(data)
    return shell.systemPayload.uiEvent.function_args.command if shell else None


def find_seconds(timestamp: str | None) -> float | None:
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
