"""What Qwen's sessions cost: its record of each response, once, with the turns and tool calls beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from msgspec import Struct, field

from corral.machine.visits import Visits
from corral.model.key import Home
from corral.model.usage import UsageBatch, UsageSource
from corral.providers.kit.conversations import HEAD_BUDGET
from corral.providers.kit.file_sessions import list_entries
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.foreign_values import TextAt, parse_moment
from corral.providers.kit.inclusive_counts import InclusiveCounts
from corral.providers.kit.transcripts import open_transcript
from corral.providers.kit.usage_batch import Gathered, clean_word, name_call
from corral.providers.kit.usage_lines import UNREADABLE, LineForm, UsageKind, make_form, read_lines
from corral.providers.qwen_code.homes import NAME, find_data_root, is_session_id
from corral.providers.qwen_code.sessions import (
    RECORD,
    RECORD_TYPES,
    SLASH_COMMAND,
    TRANSCRIPT_SUFFIX,
    Fork,
    Record,
    list_chats,
)
from corral.sidecar.files import Unreadable

ABORTED = "aborted turn"
UNCOUNTED = "response without token counts"
TOKEN_USAGE_KEY = "token-usage:"
"""Begins the key of an event that is known from the monthly file only."""

_NEVER_IN_TRANSCRIPTS = "managed-auto-memory-remember"
"""qwen 0.24.4 keeps this agent's responses out of the transcript, not out of the monthly file (2026-11)."""
_MONTH_FILE = re.compile(r"token-usage-\d{4}-\d{2}\.jsonl\Z")
_FIRST_LINES, _FIRST_BYTES = 4, 4 << 10
"""Where the record is that says whose fork it is; if the lines are longer, more is read."""
_OWN_FIRST = "session_source"
"""The record with which a fork that a client asked for begins, before the copies."""
_SHELL = "run_shell_command"
_COMMAND = TextAt("systemPayload", "uiEvent", "function_args", "command")


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """Every transcript, archived ones too, and the monthly files.

    What is no file and has the name of a transcript is given too: whoever reads it says so.
    """
    if visits is not None:
        visits.deciders.update((f"{home.path}/settings.json", f"{home.path}/.env", os.path.expanduser("~/.env")))
    root = find_data_root(home)
    if root is None:
        return
    present: set[str] = set()
    parents: set[str] = set()
    for scope, session_id, entry in _list_transcripts(root, visits):
        work_dir, parent_id = _read_origin(entry.path)
        if entry.is_file(follow_symlinks=False):
            present.add(session_id.lower())
        if parent_id:
            parents.add(parent_id)
        yield UsageSource(
            provider=NAME,
            home=home.path,
            scope=scope,
            session_id=session_id,
            path=entry.path,
            work_dir=work_dir,
            parent_id=parent_id,
        )
    orphans = tuple(sorted(parents - present))
    for entry in list_entries(os.path.join(root, "usage"), visits):
        if _MONTH_FILE.match(entry.name):
            yield UsageSource(provider=NAME, home=home.path, scope="", session_id="", path=entry.path, orphans=orphans)


def _list_transcripts(root: str, visits: Visits | None = None) -> Iterator[tuple[str, str, os.DirEntry[str]]]:
    """Scope, session and place of all that has the name of a transcript."""
    for scope, directory in list_chats(root, visits):
        for entry in list_entries(directory, visits):
            session_id = entry.name.removesuffix(TRANSCRIPT_SUFFIX)
            if session_id != entry.name and is_session_id(session_id):
                yield scope, session_id, entry


def _read_origin(path: str) -> tuple[str | None, str | None]:
    """The directory of a transcript and the session it was forked from, as its first records say.

    Neither while there is nothing but the record with which such a fork begins: whoever knows no directory looks again.
    """
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return None, None
    work_dir: str | None = None
    with transcript:
        for budget in (_FIRST_BYTES, HEAD_BUDGET):
            for line in islice(transcript.forward(budget), _FIRST_LINES):
                if record := RECORD.decode(line.data):
                    work_dir = work_dir or record.cwd
                    if record.subtype != _OWN_FIRST:
                        return work_dir, _find_origin(record.forkedFrom)
    return None, None


def _find_origin(fork: Fork | None) -> str | None:
    """Of a fork's copy, the session that it was copied from."""
    named = fork.sessionId if fork else None
    return named.lower() if named and is_session_id(named) else None


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


class Payload(Struct):
    uiEvent: UiEvent | None = None


class UsageMetadata(Struct):
    """That it is there is enough: its tokens are those of the telemetry."""


class UsageRecord(Record):
    """A record of a transcript, with what says what was spent."""

    systemPayload: Payload | None = None
    usageMetadata: UsageMetadata | None = None

    @property
    def origin(self) -> str | None:
        return _find_origin(self.forkedFrom)


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


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """What the whole lines from byte `since` on say; a last line without its end waits for the next reading."""
    found = Gathered(source, since)
    if source.session_id:
        read_lines(fd, TRANSCRIPT, found)
    else:
        read_lines(fd, LineForm(ForeignDecoder(MonthLine), _MONTH_HEAD, _Month(source).take), found)
    return found.to_batch()


def _take_telemetry(found: Gathered, record: UsageRecord, line: bytes) -> None:
    event = record.systemPayload.uiEvent if record.systemPayload else None
    if event is None:
        return
    if event.name == "qwen-code.api_response":
        _take_response(found, record, event)
    elif event.name == "qwen-code.tool_call" and event.function_name:
        name = clean_word(event.function_name)
        command = _COMMAND.find(line) if name == _SHELL else None
        _act(found, record, "tool", name_call(name, command))


def _take_response(found: Gathered, record: UsageRecord, event: UiEvent) -> None:
    counts = InclusiveCounts(
        event.input_token_count or 0,
        event.output_token_count or 0,
        event.cached_content_token_count or 0,
        event.thoughts_token_count or 0,
        event.total_token_count or 0,
    )
    if event.response_id:
        # Copies share time and counts too. With these, a server that repeats its ids merges nothing.
        figures = f"{counts.input},{counts.output},{counts.cached},{counts.thoughts}"
        key = f"{clean_word(event.response_id)}@{clean_word(event.timestamp or record.timestamp)}:{figures}"
    else:
        key = clean_word(record.uuid)
    at = _find_time(found, key, event.timestamp, record.timestamp)
    if at is None or not counts.check(found):
        return
    if not counts.is_known:
        _leave(found, record, UNCOUNTED, record.uuid)
    else:
        found.spend(
            key,
            at,
            counts.to_tokens(),
            agent=clean_word(event.subagent_id or event.subagent_name) or None,
            model=_find_model(event.model),
            branch=clean_word(record.gitBranch) or None,
            session_id=record.origin,
        )


def _take_turn(found: Gathered, record: UsageRecord, line: bytes) -> None:
    text = record.text
    if text is not None and not SLASH_COMMAND.match(text):
        _act(found, record, "turn", "")


def _take_aborted(found: Gathered, record: UsageRecord, line: bytes) -> None:
    # An answer follows the telemetry of its response, if there is any: one trace, not two.
    _leave(found, record, ABORTED, record.parentUuid or record.uuid)


def _act(found: Gathered, record: UsageRecord, kind: str, name: str) -> None:
    key = clean_word(record.uuid)
    at = _find_time(found, key, record.timestamp)
    if at is not None:
        found.act(key, at, kind, name, record.origin)


def _leave(found: Gathered, record: UsageRecord, kind: str, uuid: str | None) -> None:
    key = clean_word(uuid)
    at = _find_time(found, key, record.timestamp)
    if at is not None:
        found.leave(key, at, kind, record.origin)


def _find_time(found: Gathered, key: str, *stamps: str | None) -> float | None:
    """The first of these times that can be read. What has none, or no key, is skipped."""
    for stamp in stamps:
        at = parse_moment(stamp)
        if at is not None and key:
            return at
    found.skip(found.offset, "a record without a time" if key else UNREADABLE)
    return None


def _find_model(name: str | None) -> str | None:
    return clean_word(name) if name and name != "unknown" else None


class _Month:
    """Takes the lines of a monthly file that no transcript repeats.

    Nothing in such a line names the response of a transcript: qwen 0.24.4 even takes the time again (2026-11). So a
    line stands in for a transcript as a whole: it counts where there is none, and no longer once one was read.
    """

    def __init__(self, source: UsageSource) -> None:
        self._root = os.path.dirname(os.path.dirname(source.path))
        self._orphans = frozenset(source.orphans)

    def take(self, found: Gathered, line: MonthLine, data: bytes) -> None:
        session_id = line.sessionId.lower()
        stands_in = line.source != _NEVER_IN_TRANSCRIPTS
        if stands_in and session_id in self._present:
            return
        if stands_in and session_id in self._orphans:
            reason = "its transcript is gone and a fork of it has copies: they can't be told apart from this line"
            found.skip(found.offset, reason)
            return
        key = TOKEN_USAGE_KEY + clean_word(line.id)
        counts = InclusiveCounts(
            line.inputTokens, line.outputTokens, line.cachedTokens, line.thoughtsTokens, line.totalTokens
        )
        at = _find_time(found, key, line.timestamp)
        if at is None or not counts.check(found):
            return
        if not counts.is_known:
            found.leave(key, at, UNCOUNTED, clean_word(session_id))
        else:
            found.spend(
                key,
                at,
                counts.to_tokens(),
                agent=None if line.source == "main" else clean_word(line.source),
                model=_find_model(line.model),
                session_id=clean_word(session_id),
                stands_in=stands_in,
            )

    @cached_property
    def _present(self) -> frozenset[str]:
        """The sessions that have a transcript. A link or a special file is none."""
        found = _list_transcripts(self._root)
        return frozenset(session_id.lower() for _, session_id, entry in found if entry.is_file(follow_symlinks=False))


KINDS = {
    "system": UsageKind(_take_telemetry, frozenset({"ui_telemetry"})),
    # A prompt, and a message that steers a running turn. Notifications and scheduled prompts have other subtypes.
    "user": UsageKind(_take_turn, frozenset({None, "mid_turn_user_message"})),
    "assistant": UsageKind(_take_aborted, without="usageMetadata"),
}
TRANSCRIPT = make_form(ForeignDecoder(UsageRecord), "uuid", KINDS, dull=RECORD_TYPES - KINDS.keys())
_MONTH_HEAD = re.compile(r'\{"schemaVersion"|\{"id": ?"|\{"inputTokens"')
