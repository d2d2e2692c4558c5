"""What Claude Code spends, as its transcripts say: those of sessions, and those of their sub-agents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from corral.machine.visits import Visits
from corral.model.key import Home
from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.claude_code.processes import NAME
from corral.providers.claude_code.sessions import LINE, Block, Line, find_prompt, is_session_id, parse_moment
from corral.providers.kit.blocks import LARGEST_LINE, read_blocks
from corral.providers.kit.blocks import Block as Lines
from corral.providers.kit.foreign_json import NO_OBJECT, ForeignDecoder, is_object, split_records
from corral.providers.kit.transcripts import open_transcript
from corral.providers.kit.usage_batch import Gathered, clean_word, name_call
from corral.sidecar.files import Unreadable

INTERRUPTED = "interrupted answer, of which only the input is recorded"

_SUFFIX = ".jsonl"
_AGENT_PREFIX = "agent-"
_DEEPEST = 3
"""Levels of directories beneath `subagents`."""
_HEAD_BUDGET = 1 << 20
_HEAD_LINES = 50
_OPEN, _CLOSE = b"{}"
_MARKERS = (b'"assistant"', b'"type":"user"', b'"type": "user"')
_RECORD_HEAD = re.compile(r'\{"(?:parentUuid|type|isSidechain)":')
_SYNTHETIC = "<synthetic>"
_OWN_ID = "msg_"
_SHELL = "Bash"
_STOPPED = b'"[Request interrupted by user]"'
_UNREADABLE = "not a record that can be read, or its numbers are none"
_NO_TIME = "a record without a time"
_CONTRADICTION = "its cache writes for five minutes and for an hour do not add up to their total"
_TOO_LONG = f"a line of more than {LARGEST_LINE >> 20} MiB"


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """Every transcript, also what is no file where one should be: who reads it says so."""
    seen = visits or Visits()
    for project in seen.scan(os.path.join(home.path, "projects")):
        if project.is_dir(follow_symlinks=False):
            for session_id, path in _list_transcripts(seen, project.path):
                if source := _make_source(home, project.name, session_id, path):
                    yield source


def _list_transcripts(visits: Visits, project: str) -> Iterator[tuple[str | None, str]]:
    """With the session that each belongs to; None where only its lines say so."""
    for entry in visits.scan(project):
        stem = entry.name.removesuffix(_SUFFIX)
        if stem == entry.name and is_session_id(stem) and entry.is_dir(follow_symlinks=False):
            for path in _list_agents(visits, os.path.join(entry.path, "subagents"), _DEEPEST):
                yield stem, path
        elif stem != entry.name and is_session_id(stem):
            yield stem, entry.path
        elif stem != entry.name and stem.startswith(_AGENT_PREFIX):
            yield None, entry.path  # of a sub-agent, as older versions kept them


def _list_agents(visits: Visits, directory: str, depth: int) -> Iterator[str]:
    for entry in visits.scan(directory):
        if entry.name.startswith(_AGENT_PREFIX) and entry.name.endswith(_SUFFIX):
            yield entry.path
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _list_agents(visits, entry.path, depth - 1)


def _make_source(home: Home, scope: str, session_id: str | None, path: str) -> UsageSource | None:
    """None if it is not known whose it is. What sub-agents write begins with their name."""
    head = _read_first(path)
    stem = os.path.basename(path).removesuffix(_SUFFIX)
    agent = stem.removeprefix(_AGENT_PREFIX) if stem.startswith(_AGENT_PREFIX) else None
    owner = session_id or head.sessionId
    if owner is None or not is_session_id(owner):
        return None
    return UsageSource(
        provider=NAME,
        home=home.path,
        scope=scope,
        session_id=owner,
        path=path,
        agent=agent,
        work_dir=head.cwd,
        parent_id=head.origin,
    )


def _read_first(path: str) -> Line:
    """The first message: it says the directory, and from which session it was copied."""
    transcript = open_transcript(path)
    if not isinstance(transcript, Unreadable):
        with transcript:
            for line in islice(transcript.forward(_HEAD_BUDGET), _HEAD_LINES):
                if (record := LINE.decode(line.data)) and record.cwd:
                    return record
    return Line(type="")


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """What the whole lines from byte `since` on say; a last line without its end waits for the next reading."""
    reader = _Reader(source, since)
    for lines in read_blocks(fd, since, os.fstat(fd).st_size):
        if lines.too_long:
            if any(lines.data.find(marker, 0, lines.length) >= 0 for marker in _MARKERS):
                reader.found.skip(lines.offset, _TOO_LONG)
        else:
            reader.take_lines(lines)
        reader.found.next_offset = lines.end
    return reader.found.to_batch()


class _Reader:
    """Takes the lines of one transcript."""

    def __init__(self, source: UsageSource, since: int) -> None:
        self.found = Gathered(source, since)
        self._agent = source.agent
        self._last: tuple[str, TokenUsage] | None = None
        """Every block of an answer is a line of its own with the usage of all: the next ones add nothing."""

    def take_lines(self, lines: Lines) -> None:
        data, start = lines.data, 0
        while (stop := data.find(b"\n", start, lines.length)) >= 0:
            # Most bytes are copies of requests, beside each turn: they are passed over without being decoded.
            is_marked = any(data.find(marker, start, stop) >= 0 for marker in _MARKERS)
            if is_marked or (stop > start and not (data[start] == _OPEN and data[stop - 1] == _CLOSE)):
                self.found.offset = lines.offset + start
                line = bytes(memoryview(data)[start:stop])
                if is_marked:
                    self._take_line(line)
                elif not is_object(line):
                    self.found.skip(self.found.offset, NO_OBJECT)
            start = stop + 1

    def _take_line(self, data: bytes) -> None:
        if self._take_record(data):
            return
        pieces, damaged = split_records(data, _RECORD_HEAD)
        for piece in pieces:
            damaged = not self._take_record(piece) or damaged
        if damaged or not pieces:
            self.found.skip(self.found.offset, _UNREADABLE)

    def _take_record(self, data: bytes) -> bool:
        """False if it is none."""
        record = LINE.decode(data)
        if record is None:
            return False
        at = parse_moment(record.timestamp)
        if record.type == "assistant":
            answer = _ANSWER.decode(bytes(record.message))
            if answer is None:
                return False
            if answer.model == _SYNTHETIC or answer.id is None:
                return True  # Claude's own words, for which no model was asked
            if at is None:
                self.found.skip(self.found.offset, _NO_TIME)
            else:
                self._take_calls(record, answer, at)
                self._take_request(record, answer, at)
        elif record.type == "user" and at is not None and record.uuid:
            if record.interruptedMessageId and _STOPPED in data:
                self.found.leave(clean_word(record.interruptedMessageId), at, INTERRUPTED, record.origin)
            elif self._agent is None and find_prompt(record) is not None:
                self.found.act(clean_word(record.uuid), at, "turn", "", record.origin)
        return True

    def _take_calls(self, record: Line, answer: _Answer, at: float) -> None:
        for block in answer.content:
            if block.type == "tool_use" and block.id and block.name:
                command = _SHELL_CALL.decode(bytes(block.input)) if block.name == _SHELL else None
                name = name_call(clean_word(block.name), command.command if command else None)
                self.found.act(clean_word(block.id), at, "tool", name, record.origin)

    def _take_request(self, record: Line, answer: _Answer, at: float) -> None:
        usage = answer.usage
        if usage is None or answer.id is None:
            return
        tokens, key = usage.to_tokens(), _request_key(answer.id, record.requestId)
        if self._last == (key, tokens):
            return
        self._last = (key, tokens)
        if not usage.adds_up:
            self.found.skip(self.found.offset, _CONTRADICTION)
        self.found.spend(
            key,
            at,
            tokens,
            agent=(clean_word(record.agentId) or self._agent) if record.isSidechain or self._agent else None,
            model=clean_word(answer.model) or None,
            branch=clean_word(record.gitBranch) or None,
            session_id=record.origin,
        )


def _request_key(message_id: str, request_id: str | None) -> str:
    """Anthropic's ids are unique, and a side question repeats its conversation with other requests' ids (read,
    2026-11). A gateway's own ids may recur: there the request counts, too."""
    message = clean_word(message_id)
    return message if message.startswith(_OWN_ID) or not request_id else f"{message}:{clean_word(request_id)}"


_Count = Annotated[int, Meta(ge=0, lt=1 << 40)] | None


class _Writes(Struct):
    ephemeral_5m_input_tokens: _Count = None
    ephemeral_1h_input_tokens: _Count = None


class _OutputDetails(Struct):
    thinking_tokens: _Count = None


class _Usage(Struct):
    input_tokens: _Count = None
    output_tokens: _Count = None
    cache_read_input_tokens: _Count = None
    cache_creation_input_tokens: _Count = None
    cache_creation: _Writes | None = None
    output_tokens_details: _OutputDetails | None = None

    @property
    def _split(self) -> tuple[int, int]:
        """Writes for five minutes, and for an hour."""
        writes = self.cache_creation or _Writes()
        return writes.ephemeral_5m_input_tokens or 0, writes.ephemeral_1h_input_tokens or 0

    @property
    def _thinking(self) -> int:
        return (self.output_tokens_details.thinking_tokens or 0) if self.output_tokens_details else 0

    @property
    def adds_up(self) -> bool:
        return self.cache_creation_input_tokens is None or sum(self._split) in (0, self.cache_creation_input_tokens)

    def to_tokens(self) -> TokenUsage:
        """The total of writes is what was billed; of it, as many as are named were for an hour."""
        short, long = self._split
        written = short + long if self.cache_creation_input_tokens is None else self.cache_creation_input_tokens
        long = min(long, written)
        output = self.output_tokens or 0
        thinking = min(self._thinking, output)  # 2.1.325: an answer that was stopped has its thinking and one token
        return TokenUsage(
            self.input_tokens or 0, self.cache_read_input_tokens or 0, written - long, long, output - thinking, thinking
        )


class _Answer(Struct):
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None
    content: list[Block] = []


class _ShellCall(Struct):
    command: str | None = None


_ANSWER = ForeignDecoder(_Answer)
_SHELL_CALL = ForeignDecoder(_ShellCall)
