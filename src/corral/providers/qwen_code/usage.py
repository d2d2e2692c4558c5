"""What Qwen's sessions cost: its record of each response, once, with the turns and tool calls beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, field

from corral.machine.visits import Visits
from corral.model.key import Home
from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.kit.blocks import LARGEST_LINE, read_blocks
from corral.providers.kit.foreign_json import NO_OBJECT, ForeignDecoder, is_object, split_records
from corral.providers.kit.transcripts import open_transcript
from corral.providers.kit.usage_batch import Gathered, clean_word, name_call
from corral.providers.qwen_code.homes import NAME, TRANSCRIPT_SUFFIX, find_data_root, is_session_id
from corral.sidecar.files import Unreadable, open_regular

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


_HEAD_BUDGET = 16 << 20
_HEAD_LINES = 4
_FIRST_BYTES = 4 << 10
_OWN_FIRST = b'"session_source"'
"""What a fork that a client asked for begins with, before the copies."""
_MONTH_FILE = re.compile(r"token-usage-\d{4}-\d{2}\.jsonl\Z")


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """Every transcript, archived ones too, and the monthly files; also what is no file where a transcript should be:
    who reads it says so."""
    root = find_data_root(home)
    if visits is not None:
        _note_places(home, root, visits)
    if root is None:
        return
    present: set[str] = set()
    parents: set[str] = set()
    for scope, session_id, entry in _list_places(root):
        head = _read_head(entry.path)
        if entry.is_file(follow_symlinks=False):
            present.add(session_id.lower())
        if head.parent_id:
            parents.add(head.parent_id)
        yield UsageSource(
            provider=NAME,
            home=home.path,
            scope=scope,
            session_id=session_id,
            path=entry.path,
            work_dir=head.work_dir,
            parent_id=head.parent_id,
        )
    for entry in _list_entries(os.path.join(root, "usage")):
        if _MONTH_FILE.match(entry.name):
            orphans = tuple(sorted(parents - present))
            yield UsageSource(provider=NAME, home=home.path, scope="", session_id="", path=entry.path, orphans=orphans)


def _note_places(home: Home, root: str | None, visits: Visits) -> None:
    """Every directory that can hold a source, and the files that say where they are."""
    visits.deciders.update((f"{home.path}/settings.json", f"{home.path}/.env", os.path.expanduser("~/.env")))
    if root is None:
        return
    visits.scan(os.path.join(root, "usage"))
    for project in visits.scan(os.path.join(root, "projects")):
        visits.scan(os.path.join(project.path, "chats"))
        visits.scan(os.path.join(project.path, "chats", "archive"))


def list_transcripts(root: str) -> Iterator[tuple[str, str, str]]:
    """Scope, session and path of every transcript beneath a data root. Links and special files are none."""
    for scope, session_id, entry in _list_places(root):
        if entry.is_file(follow_symlinks=False):
            yield scope, session_id, entry.path


def _list_places(root: str) -> Iterator[tuple[str, str, os.DirEntry[str]]]:
    """The same with whatever stands where a transcript should be."""
    for project in _list_directories(os.path.join(root, "projects")):
        chats = os.path.join(project.path, "chats")
        for directory in (chats, os.path.join(chats, "archive")):
            for entry in _list_entries(directory):
                session_id = entry.name.removesuffix(TRANSCRIPT_SUFFIX)
                if session_id != entry.name and is_session_id(session_id):
                    yield project.name, session_id, entry


def _list_directories(path: str) -> list[os.DirEntry[str]]:
    return [entry for entry in _list_entries(path) if entry.is_dir()]


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
    if ended and _OWN_FIRST not in first and (record := FIRST.decode(first)):
        return _Head(record.cwd, record.origin)
    return _search_head(path)


def _search_head(path: str) -> _Head:
    """The same where the first record is long or damaged, or is a fork's own: the copies follow it at once.

    Nothing while such a one is all there is: who knows of no directory looks again.
    """
    head, may_tell_more = _Head(), True
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return head
    with transcript:
        for number, line in enumerate(transcript.forward(_HEAD_BUDGET)):
            if number >= _HEAD_LINES or head.parent_id:
                break
            if record := FIRST.decode(line.data):
                head.work_dir = head.work_dir or record.cwd
                head.parent_id = record.origin
                may_tell_more = may_tell_more and _OWN_FIRST in line.data
    return _Head() if may_tell_more else head


ABORTED = "aborted turn"
UNCOUNTED = "response without token counts"
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
                self._take_action(offset, record, "turn", "")
        elif record.type == "assistant" and record.subtype is None and record.usageMetadata is None:
            # An answer follows the telemetry of its response, if there is any: one trace, not two.
            self._take_trace(offset, record, ABORTED, record.parentUuid or record.uuid)

    def _take_telemetry(self, offset: int, record: Record, event: UiEvent, data: bytes) -> None:
        if event.name == "qwen-code.api_response":
            self._take_response(offset, record, event)
        elif event.name == "qwen-code.tool_call" and event.function_name:
            name = clean_word(event.function_name)
            command = find_command(data) if name == _SHELL else None
            self._take_action(offset, record, "tool", name_call(name, command))

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

    def _take_action(self, offset: int, record: Record, kind: str, name: str) -> None:
        at = find_seconds(record.timestamp)
        if at is None or not record.uuid:
            self._found.skip(offset, _NO_TIME if record.uuid else _UNREADABLE)
            return
        self._found.act(clean_word(record.uuid), at, kind, name, record.origin)

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
