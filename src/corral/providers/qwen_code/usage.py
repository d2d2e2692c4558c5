"""What Qwen's sessions cost: its record of each response, once, with the turns and tool calls beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from corral.model.key import Home
from corral.model.usage import Deed, TokenUsage, Unrecorded, UsageBatch, UsageEvent, UsageSkip, UsageSource
from corral.providers.qwen_code.homes import NAME, find_data_root
from corral.providers.qwen_code.places import TRANSCRIPT_SUFFIX, is_session_id
from corral.sidecar.files import open_regular
from corral.system.foreign_json import ForeignDecoder
from corral.system.transcripts import Unreadable, open_transcript

ABORTED = "aborted turn"
UNCOUNTED = "response without token counts"
UNRECORDED_KINDS: tuple[str, ...] = (
    "prompt suggestions and the speculative runs behind them",
    "side questions (/btw) and /advisor",
    "session titles, recaps and summaries",
    "approval decisions made by a model",
    "memory look-ups, web page digests, image descriptions and other side queries",
    "turns stopped or killed before a word of the answer was written",
    "requests that ended in an error",
)
"""Billed, and on disk without a trace. Of the other unrecorded ones a trace is found, and counted."""

TOKEN_USAGE_KEY = "token-usage:"
"""Begins the key of an event that is known from the monthly file only."""

_CHUNK = 1 << 20
_LINE_LIMIT = 32 << 20
_HEAD_BUDGET = 16 << 20
_HEAD_LINES = 4
_FIRST_BYTES = 4 << 10
_SALVAGE_LIMIT = 4 << 20
_EARLY = 320
"""Qwen writes a record's type this early, before anything of a tool."""
_MOST_TOKENS = 1 << 40
"""More than any request has: a count beyond it is damage."""
_LONGEST_NAME = 200
_MONTH_FILE = re.compile(r"token-usage-\d{4}-\d{2}\.jsonl\Z")
_SLASH_COMMAND = re.compile(r"\s*/[A-Za-z][\w:.-]*(\s|\Z)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*\Z")
_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]{0,63}\Z", re.ASCII)
_SHELL = "run_shell_command"
_TURNS = frozenset({None, "mid_turn_user_message"})
"""A prompt, and a message that steers a running turn. Notifications and scheduled prompts have other subtypes."""
_NEVER_IN_TRANSCRIPTS = frozenset({"managed-auto-memory-remember"})
"""qwen 0.24.4 keeps this agent's responses out of the transcript, not out of the monthly file (2026-11)."""

_UNREADABLE = "not a record that can be read"
_NO_TIME = "a record without a time"
_OUT_OF_RANGE = "a token count that no request can have"
_TOO_LONG = f"a line of more than {_LINE_LIMIT >> 20} MiB"
_FORK_HAS_COPIES = "its transcript is gone and a fork of it has copies: they can't be told apart from this line"
_CACHED_EXCEEDS = "counted, but it names more cached input than input"
_THOUGHTS_EXCEED = "counted, but it names more reasoning than output"


def list_usage_sources(home: Home) -> Iterator[UsageSource]:
    """Every transcript, archived ones too, and the monthly files. Links and special files are left out."""
    root = find_data_root(home)
    if root is None:
        return
    for scope, session_id, path in _list_transcripts(root):
        head = _read_head(path)
        yield UsageSource(
            provider=NAME,
            home=home.path,
            scope=scope,
            session_id=session_id,
            path=path,
            work_dir=head.work_dir,
            parent_id=head.parent_id,
        )
    for entry in _list_files(os.path.join(root, "usage")):
        if _MONTH_FILE.match(entry.name):
            yield UsageSource(provider=NAME, home=home.path, scope="", session_id="", path=entry.path)


def read_usage(source: UsageSource, since: int) -> UsageBatch:
    """What the whole lines from byte `since` on say; a last line without its end waits for the next reading."""
    found = _Found(path=source.path, next_offset=since)
    fd = open_regular(source.path)
    if isinstance(fd, Unreadable):
        found.skip(since, fd.reason)
        return found.to_batch()
    take = _TranscriptReader(source, found).take if source.session_id else _MonthReader(source, found).take
    try:
        for start, end, data in _read_whole_lines(fd, since, os.fstat(fd).st_size):
            if data is None:
                found.skip(start, _TOO_LONG)
            else:
                take(start, data)
            found.next_offset = end
    except OSError as error:
        found.skip(found.next_offset, error.strerror or str(error))
    finally:
        os.close(fd)
    return found.to_batch()


class _Found(Struct):
    """A batch while it is gathered."""

    path: str
    next_offset: int
    events: list[UsageEvent] = field(default_factory=list[UsageEvent])
    deeds: list[Deed] = field(default_factory=list[Deed])
    unrecorded: list[Unrecorded] = field(default_factory=list[Unrecorded])
    skipped: list[UsageSkip] = field(default_factory=list[UsageSkip])

    def skip(self, offset: int, reason: str) -> None:
        self.skipped.append(UsageSkip(path=self.path, offset=offset, reason=reason))

    def to_batch(self) -> UsageBatch:
        return UsageBatch(
            events=self.events,
            deeds=self.deeds,
            unrecorded=self.unrecorded,
            skipped=self.skipped,
            next_offset=self.next_offset,
        )


class _TranscriptReader:
    """Takes the lines of one transcript."""

    def __init__(self, source: UsageSource, found: _Found) -> None:
        self._session_id = source.session_id
        self._found = found

    def take(self, offset: int, data: bytes) -> None:
        if not _may_matter(data):
            return
        record = _RECORD.decode(data)
        if record is not None:
            self._take_record(offset, record, data)
            return
        for piece in _salvage(data):
            record = _RECORD.decode(piece)
            if record is not None:
                self._take_record(offset, record, piece)
            else:
                self._found.skip(offset, _UNREADABLE)

    def _take_record(self, offset: int, record: _Record, data: bytes) -> None:
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

    def _take_telemetry(self, offset: int, record: _Record, event: _UiEvent, data: bytes) -> None:
        if event.name == "qwen-code.api_response":
            self._take_response(offset, record, event)
        elif event.name == "qwen-code.tool_call" and event.function_name:
            name = _clean(event.function_name)
            program = _find_program(data) if name == _SHELL else None
            self._take_deed(offset, record, "tool", f"{name} {program}" if program else name)

    def _take_response(self, offset: int, record: _Record, event: _UiEvent) -> None:
        counts = _Counts(
            event.input_token_count or 0,
            event.output_token_count or 0,
            event.cached_content_token_count or 0,
            event.thoughts_token_count or 0,
            event.total_token_count or 0,
        )
        at = _seconds(event.timestamp) or _seconds(record.timestamp)
        key = _response_key(record, event)
        if at is None or key is None:
            self._found.skip(offset, _NO_TIME if key else _UNREADABLE)
        elif not counts.possible:
            self._found.skip(offset, _OUT_OF_RANGE)
        elif not counts.known:
            self._take_trace(offset, record, UNCOUNTED, record.uuid)
        else:
            for reason in counts.contradictions:
                self._found.skip(offset, reason)
            agent = event.subagent_id or event.subagent_name
            self._found.events.append(
                UsageEvent(
                    key=key,
                    at=at,
                    session_id=self._owner(record),
                    agent=_clean(agent) if agent else None,
                    model=_model(event.model),
                    tokens=counts.to_tokens(),
                    branch=_clean(record.gitBranch) if record.gitBranch else None,
                    offset=offset,
                )
            )

    def _take_deed(self, offset: int, record: _Record, kind: str, name: str) -> None:
        at = _seconds(record.timestamp)
        if at is None or not record.uuid:
            self._found.skip(offset, _NO_TIME if record.uuid else _UNREADABLE)
            return
        owner = self._owner(record)
        deed = Deed(key=_clean(record.uuid), at=at, session_id=owner, kind=kind, name=name, offset=offset)
        self._found.deeds.append(deed)

    def _take_trace(self, offset: int, record: _Record, kind: str, uuid: str | None) -> None:
        at = _seconds(record.timestamp)
        if at is None or not uuid:
            self._found.skip(offset, _NO_TIME if uuid else _UNREADABLE)
            return
        trace = Unrecorded(key=_clean(uuid), at=at, session_id=self._owner(record), kind=kind, offset=offset)
        self._found.unrecorded.append(trace)

    def _owner(self, record: _Record) -> str:
        """A fork's copy names the session it was copied from."""
        return (record.forkedFrom.origin if record.forkedFrom else None) or self._session_id


class _MonthReader:
    """Takes the lines of a monthly file that no transcript repeats."""

    def __init__(self, source: UsageSource, found: _Found) -> None:
        self._root = os.path.dirname(os.path.dirname(source.path))
        self._found = found
        self._present: frozenset[str] | None = None
        self._parents: frozenset[str] | None = None

    def take(self, offset: int, data: bytes) -> None:
        if not data.strip():
            return
        line = _MONTH_LINE.decode(data)
        for each in [line] if line else map(_MONTH_LINE.decode, _salvage(data)):
            if each is not None:
                self._take_line(offset, each)
            else:
                self._found.skip(offset, _UNREADABLE)

    def _take_line(self, offset: int, line: _MonthLine) -> None:
        session_id = line.sessionId.lower()
        if line.source not in _NEVER_IN_TRANSCRIPTS:
            if session_id in self._list_present():
                return
            if session_id in self._list_parents():
                self._found.skip(offset, _FORK_HAS_COPIES)
                return
        counts = _Counts(line.inputTokens, line.outputTokens, line.cachedTokens, line.thoughtsTokens, line.totalTokens)
        at = _seconds(line.timestamp)
        if at is None or not counts.possible:
            self._found.skip(offset, _NO_TIME if at is None else _OUT_OF_RANGE)
            return
        key = TOKEN_USAGE_KEY + _clean(line.id)
        session_id = _clean(line.sessionId)
        if not counts.known:
            trace = Unrecorded(key=key, at=at, session_id=session_id, kind=UNCOUNTED, offset=offset)
            self._found.unrecorded.append(trace)
            return
        for reason in counts.contradictions:
            self._found.skip(offset, reason)
        agent = None if line.source == "main" else _clean(line.source)
        model = _model(line.model)
        tokens = counts.to_tokens()
        event = UsageEvent(
            key=key, at=at, session_id=session_id, agent=agent, model=model, tokens=tokens, offset=offset
        )
        self._found.events.append(event)

    def _list_present(self) -> frozenset[str]:
        if self._present is None:
            self._present = frozenset(session_id.lower() for _, session_id, _ in _list_transcripts(self._root))
        return self._present

    def _list_parents(self) -> frozenset[str]:
        if self._parents is None:
            heads = (_read_head(path) for _, _, path in _list_transcripts(self._root))
            self._parents = frozenset(head.parent_id.lower() for head in heads if head.parent_id)
        return self._parents


class _Counts(Struct, frozen=True):
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


def _may_matter(data: bytes) -> bool:
    """Whether a line can hold a record that is counted. A quote within a text is escaped: these are real names."""
    if data.find(b'"type":"tool_result"', 0, _EARLY) >= 0 and b'}{"uuid"' not in data:
        return False
    return b'"ui_telemetry"' in data or b'"user"' in data or (b'"assistant"' in data and b'"usageMetadata"' not in data)


def _response_key(record: _Record, event: _UiEvent) -> str | None:
    """The response's id with its time: copies share both, and a server that repeats ids does not merge responses."""
    if event.response_id:
        return f"{_clean(event.response_id)}@{_clean(event.timestamp or record.timestamp or '')}"
    return _clean(record.uuid) if record.uuid else None


def _model(name: str | None) -> str | None:
    return _clean(name) if name and name != "unknown" else None


def _find_program(data: bytes) -> str | None:
    """The first program of a shell command, by its bare name; None rather than a word that may be anything."""
    shell = _SHELL_CALL.decode(data)
    if shell is None:
        return None
    for word in shell.systemPayload.uiEvent.function_args.command.split(None, 16)[:16]:
        if not _ASSIGNMENT.match(word):
            name = word.rsplit("/", 1)[-1]
            return name if _PROGRAM.match(name) else None
    return None


def _clean(text: str) -> str:
    """A name that every store can hold: no lone surrogates, not longer than a name is."""
    return text[:_LONGEST_NAME].encode("utf-8", "replace").decode()


def _seconds(timestamp: str | None) -> float | None:
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _salvage(data: bytes) -> list[bytes]:
    """The records on a line that is not one record: two writers leave `{…}{…}`, a crash leaves bytes that are no text.

    What can't be told apart is given as it is, so that it is noted and not forgotten.
    """
    if len(data) > _SALVAGE_LIMIT:
        return [data]
    import json

    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    pieces: list[bytes] = []
    position = 0
    while (start := text.find("{", position)) >= 0:
        try:
            _value: Any
            _value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return [*pieces, data]
        pieces.append(text[start:position].encode("utf-8", "replace"))
    return pieces or [data]


def _read_whole_lines(fd: int, since: int, size: int) -> Iterator[tuple[int, int, bytes | None]]:
    """Start, end and bytes of each ended line; None for the bytes of one that is too long to hold."""
    parts: list[bytes] = []
    held = 0
    start = position = since
    while position < size and (chunk := os.pread(fd, min(_CHUNK, size - position), position)):
        left = 0
        while (newline := chunk.find(b"\n", left)) >= 0:
            parts.append(chunk[left:newline])
            held += newline - left
            left = newline + 1
            yield start, position + left, b"".join(parts) if held <= _LINE_LIMIT else None
            start, held = position + left, 0
            parts.clear()
        held += len(chunk) - left
        if held <= _LINE_LIMIT:
            parts.append(chunk[left:])
        else:
            parts.clear()
        position += len(chunk)


def _list_transcripts(root: str) -> Iterator[tuple[str, str, str]]:
    """Scope, session and path of every transcript beneath a data root."""
    for project in _list_directories(os.path.join(root, "projects")):
        chats = os.path.join(project.path, "chats")
        for directory in (chats, os.path.join(chats, "archive")):
            for entry in _list_files(directory):
                session_id = entry.name.removesuffix(TRANSCRIPT_SUFFIX)
                if session_id != entry.name and is_session_id(session_id):
                    yield project.name, session_id, entry.path


def _list_directories(path: str) -> list[os.DirEntry[str]]:
    return [entry for entry in _list_entries(path) if entry.is_dir()]


def _list_files(path: str) -> list[os.DirEntry[str]]:
    return [entry for entry in _list_entries(path) if entry.is_file(follow_symlinks=False)]


def _list_entries(path: str) -> list[os.DirEntry[str]]:
    """What is in a directory, by name; none where it is missing. Denied is an OSError, for the caller to tell."""
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


class _Head(Struct):
    work_dir: str | None = None
    parent_id: str | None = None


def _read_head(path: str) -> _Head:
    """The directory of a transcript and the session it was forked from, as its first records say."""
    fd = open_regular(path)
    if isinstance(fd, Unreadable):
        return _Head()
    try:
        first, ended, _ = os.pread(fd, _FIRST_BYTES, 0).partition(b"\n")
    except OSError:
        return _Head()
    finally:
        os.close(fd)
    if ended and b'"session_source"' not in first and (record := _FIRST.decode(first)):
        return _Head(record.cwd, record.origin)
    return _search_head(path)


def _search_head(path: str) -> _Head:
    """The same where the first record is long or damaged, or is a fork's own: the copies follow it at once."""
    head = _Head()
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return head
    with transcript:
        for number, line in enumerate(transcript.forward(_HEAD_BUDGET)):
            if number >= _HEAD_LINES or head.parent_id:
                break
            if record := _FIRST.decode(line.data):
                head.work_dir = head.work_dir or record.cwd
                head.parent_id = record.origin
    return head


class _UiEvent(Struct):
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


class _Payload(Struct):
    uiEvent: _UiEvent | None = None


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
        return self.sessionId if self.sessionId and is_session_id(self.sessionId) else None


class _Record(Struct):
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


class _First(Struct):
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


class _MonthLine(Struct):
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


_RECORD = ForeignDecoder(_Record)
_FIRST = ForeignDecoder(_First)
_SHELL_CALL = ForeignDecoder(_ShellCall)
_MONTH_LINE = ForeignDecoder(_MonthLine)
