"""What Qwen's sessions cost: its record of each response, once, with the turns and tool calls beside it."""

from __future__ import annotations

import os

from corral.model.usage import UsageBatch, UsageSource
from corral.providers.qwen_code.usage_lines import (
    MONTH_HEAD,
    MONTH_LINE,
    RECORD,
    RECORD_HEAD,
    Counts,
    MonthLine,
    Record,
    UiEvent,
    find_command,
    find_seconds,
    is_tool_result,
    may_matter,
)
from corral.providers.qwen_code.usage_sources import list_transcripts
from corral.system.blocks import LARGEST_LINE, read_blocks
from corral.system.foreign_json import NO_OBJECT, is_object, split_records
from corral.system.usage_batch import Gathered, clean_word, name_call

ABORTED = "aborted turn"
UNCOUNTED = "response without token counts"
UNRECORDED_KINDS: tuple[str, ...] = (
    "prompt suggestions and the speculative runs behind them",
    "side questions (/btw) and /advisor",
    "session titles, recaps and summaries",
    "approval decisions made by a model",
    "memory look-ups, web page digests, image descriptions and other side queries",
    "turns stopped or killed before a word of the answer was written",
    "compactions that were stopped, and the last request of a sub-agent that was killed",
    "requests that ended in an error",
)
"""Billed, and on disk without a trace. Of the other unrecorded ones a trace is found, and counted."""

TOKEN_USAGE_KEY = "token-usage:"
"""Begins the key of an event that is known from the monthly file only."""

_NEVER_IN_TRANSCRIPTS = frozenset({"managed-auto-memory-remember"})
"""qwen 0.24.4 keeps this agent's responses out of the transcript, not out of the monthly file (2026-11)."""
_SHELL = "run_shell_command"
_UNREADABLE = "not a record that can be read"
_NO_TIME = "a record without a time"
_OUT_OF_RANGE = "a token count that no request can have"
_FORK_HAS_COPIES = "its transcript is gone and a fork of it has copies: they can't be told apart from this line"
_TOO_LONG = f"a line of more than {LARGEST_LINE >> 20} MiB"


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """What the whole lines from byte `since` on say; a last line without its end waits for the next reading."""
    found = Gathered(source, since)
    reader = _TranscriptReader(found) if source.session_id else _MonthReader(source, found)
    for block in read_blocks(fd, since, os.fstat(fd).st_size):
        if block.too_long:
            if not is_tool_result(block.data):
                found.skip(block.offset, _TOO_LONG)
        else:
            start = 0
            while (stop := block.data.find(b"\n", start, block.length)) >= 0:
                data = bytes(block.data[start:stop])
                if reader.matters(data):
                    found.offset = block.offset + start
                    reader.take(found.offset, data)
                elif not (data.startswith(b"{") and data.endswith(b"}")) and not is_object(data):
                    found.skip(block.offset + start, NO_OBJECT)
                start = stop + 1
        found.next_offset = block.end
    return found.to_batch()


class _TranscriptReader:
    """Takes the lines of one transcript."""

    def __init__(self, found: Gathered) -> None:
        self._found = found

    def matters(self, data: bytes | bytearray) -> bool:
        return may_matter(data)

    def take(self, offset: int, data: bytes) -> None:
        record = RECORD.decode(data)
        if record is not None:
            self._take_record(offset, record, data)
            return
        pieces, damaged = split_records(data, RECORD_HEAD)
        for piece in pieces:
            record = RECORD.decode(piece)
            if record is not None:
                self._take_record(offset, record, piece)
            else:
                damaged = True
        if damaged:
            self._found.skip(offset, _UNREADABLE)

    def _take_record(self, offset: int, record: Record, data: bytes) -> None:
        if record.type == "system":
            event = record.systemPayload.uiEvent if record.systemPayload else None
            if record.subtype == "ui_telemetry" and event is not None:
                self._take_telemetry(offset, record, event, data)
        elif record.type == "user":
            if record.is_turn:
                self._take_deed(offset, record, "turn", "")
        elif record.type == "assistant" and record.subtype is None and record.usageMetadata is None:
            # An answer follows the telemetry of its response, if there is any: one trace, not two.
            self._take_trace(offset, record, ABORTED, record.parentUuid or record.uuid)

    def _take_telemetry(self, offset: int, record: Record, event: UiEvent, data: bytes) -> None:
        if event.name == "qwen-code.api_response":
            self._take_response(offset, record, event)
        elif event.name == "qwen-code.tool_call" and event.function_name:
            name = clean_word(event.function_name)
            command = find_command(data) if name == _SHELL else None
            self._take_deed(offset, record, "tool", name_call(name, command))

    def _take_response(self, offset: int, record: Record, event: UiEvent) -> None:
        counts = event.counts
        stamp = event.timestamp if find_seconds(event.timestamp) is not None else record.timestamp
        at = find_seconds(stamp)
        key = _response_key(record, event, counts)
        if at is None or key is None:
            self._found.skip(offset, _NO_TIME if key else _UNREADABLE)
        elif not counts.possible:
            self._found.skip(offset, _OUT_OF_RANGE)
        elif not counts.known:
            self._take_trace(offset, record, UNCOUNTED, record.uuid)
        else:
            for reason in counts.contradictions:
                self._found.skip(offset, reason)
            self._found.spend(
                key,
                at,
                counts.to_tokens(),
                agent=clean_word(event.subagent_id or event.subagent_name) or None,
                model=_model(event.model),
                branch=clean_word(record.gitBranch) or None,
                session_id=record.origin,
            )

    def _take_deed(self, offset: int, record: Record, kind: str, name: str) -> None:
        at = find_seconds(record.timestamp)
        if at is None or not record.uuid:
            self._found.skip(offset, _NO_TIME if record.uuid else _UNREADABLE)
            return
        self._found.do(clean_word(record.uuid), at, kind, name, record.origin)

    def _take_trace(self, offset: int, record: Record, kind: str, uuid: str | None) -> None:
        at = find_seconds(record.timestamp)
        if at is None or not uuid:
            self._found.skip(offset, _NO_TIME if uuid else _UNREADABLE)
            return
        self._found.leave(clean_word(uuid), at, kind, record.origin)


class _MonthReader:
    """Takes the lines of a monthly file that no transcript repeats.

    Nothing in such a line names the response of a transcript: qwen 0.24.4 even takes the time anew (2026-11). So a
    line stands in for a transcript as a whole: it counts where none is, and no longer once one was read.
    """

    def __init__(self, source: UsageSource, found: Gathered) -> None:
        self._root = os.path.dirname(os.path.dirname(source.path))
        self._found = found
        self._present: frozenset[str] | None = None
        self._orphans = frozenset(source.orphans)

    def matters(self, data: bytes | bytearray) -> bool:
        return bool(data.strip())

    def take(self, offset: int, data: bytes) -> None:
        line = MONTH_LINE.decode(data)
        if line is not None:
            self._take_line(offset, line)
            return
        pieces, damaged = split_records(data, MONTH_HEAD)
        for piece in pieces:
            line = MONTH_LINE.decode(piece)
            if line is not None:
                self._take_line(offset, line)
            else:
                damaged = True
        if damaged or not pieces:
            self._found.skip(offset, _UNREADABLE)

    def _take_line(self, offset: int, line: MonthLine) -> None:
        session_id = line.sessionId.lower()
        stands_in = line.source not in _NEVER_IN_TRANSCRIPTS
        if stands_in:
            if session_id in self._list_present():
                return
            if session_id in self._orphans:
                self._found.skip(offset, _FORK_HAS_COPIES)
                return
        counts = line.counts
        at = find_seconds(line.timestamp)
        if at is None or not counts.possible:
            self._found.skip(offset, _NO_TIME if at is None else _OUT_OF_RANGE)
            return
        key = TOKEN_USAGE_KEY + clean_word(line.id)
        if not counts.known:
            self._found.leave(key, at, UNCOUNTED, clean_word(session_id))
            return
        for reason in counts.contradictions:
            self._found.skip(offset, reason)
        self._found.spend(
            key,
            at,
            counts.to_tokens(),
            agent=None if line.source == "main" else clean_word(line.source),
            model=_model(line.model),
            session_id=clean_word(session_id),
            stands_in=stands_in,
        )

    def _list_present(self) -> frozenset[str]:
        if self._present is None:
            self._present = frozenset(session_id.lower() for _, session_id, _ in list_transcripts(self._root))
        return self._present


def _response_key(record: Record, event: UiEvent, counts: Counts) -> str | None:
    """The response's id with its time and counts: copies share them, and a server that repeats ids merges nothing."""
    if event.response_id:
        figures = f"{counts.input},{counts.output},{counts.cached},{counts.thoughts}"
        return f"{clean_word(event.response_id)}@{clean_word(event.timestamp or record.timestamp)}:{figures}"
    return clean_word(record.uuid) or None


def _model(name: str | None) -> str | None:
    return clean_word(name) if name and name != "unknown" else None
