"""Qwen's sessions on disk: transcripts by their head and tail, archived ones, and those never spoken to."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from corral import sidecar
from corral.machine.stamps import to_stamp
from corral.machine.text import one_line
from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import SessionRecord, Skipped, TurnState
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.runtime_claims import read_hint
from corral.providers.kit.stamped import is_settled
from corral.providers.kit.transcripts import TAIL_BUDGET, Transcript, Unreadable, open_transcript
from corral.providers.qwen_code.homes import (
    LEDGER_SUFFIX,
    NAME,
    RUNTIME_SUFFIX,
    TRANSCRIPT_SUFFIX,
    find_data_root,
    is_session_id,
)

HEAD_BUDGET = 16 << 20
"""A first prompt with a pasted image is several megabytes on one line; reading stops once it was read."""
_TITLE_WINDOW = 64 << 10
"""Qwen itself looks for a custom title this far from either end, and repeats the title near the end."""
_HEAD_LINES = 200
_SLASH_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(\s|\Z)")


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
    git_branch: str | None = None
    """As the last message says: Qwen looks it up once per run."""
    calls_tool: bool = False
    """The tail is a tool call without result."""
    damaged: bool = False
    """A line that was ended could not be read."""
    branched: bool = False
    """Near the end two messages follow the same one: two processes wrote, and a resume drops one branch."""
    notes: tuple[str, ...] = ()


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
        git_branch=tail.git_branch,
        calls_tool=tail.calls_tool,
        damaged=head.damaged or tail.damaged,
        branched=tail.branched,
        notes=(*head.notes, *tail.notes),
    )


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
    git_branch: str | None = None
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
        if record.type not in RECORD_TYPES:
            continue
        head.first = head.first or record
        if record.type == "system" and record.subtype == "custom_title":
            head.title = _find_title(line.data) or head.title
        elif head.prompt is None and record.is_prompt:
            text = _prompt_text(record, line.data)
            head.prompt = text if text and not _SLASH_COMMAND.match(text) else None
    if head.first is None and transcript.exhausted:
        head.notes = (f"the first record is beyond {HEAD_BUDGET >> 20} MiB and was not read",)
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
        if record.type not in RECORD_TYPES:
            continue
        if record.parentUuid is not None and record.type != "system":
            tail.branched = tail.branched or record.parentUuid in parents
            parents.add(record.parentUuid)
        tail.newest = tail.newest or record
        if record.type == "system":
            if tail.title is None and record.subtype == "custom_title":
                tail.title = _find_title(line.data)
            if not decided and record.subtype in _TURN_ENDS:
                decided, tail.turn, tail.git_branch = True, TurnState.ENDED, _branch(record)
            continue
        if not decided:
            decided, tail.git_branch = True, _branch(record)
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


def _branch(record: _Record) -> str | None:
    return one_line(record.gitBranch) if record.gitBranch else None


def _prompt_text(record: _Record, data: bytes) -> str | None:
    # What the person typed, where a hook or a command has added to it (qwen 0.24.4, 2026-11).
    if b'"displayText"' in data and (shown := _SHOWN.decode(data)):
        return one_line(shown.systemPayload.displayText)
    for part in record.parts:
        if part.text and (text := one_line(part.text)):
            return text
    return None


def _seconds(timestamp: str | None) -> float | None:
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


RECORD_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_TURN_ENDS = frozenset({"turn_result", "rewind"})
"""`turn_result`: the ACP server writes it at the end of a turn. `rewind`: only possible between turns."""


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
    gitBranch: str | None = None
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


_RECORD = ForeignDecoder(_Record)
_TITLED = ForeignDecoder(_Titled)
_SHOWN = ForeignDecoder(_Shown)


DAMAGED = "some lines are unreadable: a resume may lose what comes before them"
FOREIGN_ID = "its records name another session than its file does"
TWO_WRITERS = "two processes wrote to it at once: a resume follows the branch that was written last"
TOOL_OR_APPROVAL = "a tool runs or waits for approval: Qwen's transcript does not show which"

Entries = dict[str, os.DirEntry[str]]


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Skipped]:
    """Every session of the home. A transcript that `known` has with the same fingerprint is not opened."""
    root = find_data_root(home)
    if root is None:
        reason = "advanced.runtimeOutputDir is relative: each project has its sessions beneath itself, unlisted"
        yield _skip(os.path.join(home.path, "settings.json"), reason)
        return
    projects = os.path.join(root, "projects")
    for project in _list_directories(projects):
        chats = os.path.join(project.path, "chats")
        yield from _list_project(home, project.name, chats, known)


def _list_project(home: Home, scope: str, chats: str, known: Known) -> Iterator[SessionRecord | Skipped]:
    active = _list_entries(chats)
    if isinstance(active, Skipped):
        yield active
        return
    for name, entry in active.items():
        if name.endswith(TRANSCRIPT_SUFFIX):
            if (session_id := name.removesuffix(TRANSCRIPT_SUFFIX)) and is_session_id(session_id):
                yield _read_known(home, scope, session_id, entry, active.get(session_id + RUNTIME_SUFFIX), known)
            elif not name.endswith(LEDGER_SUFFIX):
                yield _skip(entry.path, "its name is not a session id")
        elif name.endswith(RUNTIME_SUFFIX):
            session_id = name.removesuffix(RUNTIME_SUFFIX)
            if is_session_id(session_id) and session_id + TRANSCRIPT_SUFFIX not in active:
                yield _read_unspoken(home, scope, session_id, entry, known)
    if "archive" not in active:
        return
    archived = _list_entries(os.path.join(chats, "archive"))
    if isinstance(archived, Skipped):
        yield archived
        return
    for name, entry in archived.items():
        session_id = name.removesuffix(TRANSCRIPT_SUFFIX)
        if not name.endswith(TRANSCRIPT_SUFFIX) or not is_session_id(session_id):
            continue
        if name in active:
            yield _skip(entry.path, "the same session is there unarchived too")
        else:
            yield _read_known(home, scope, session_id, entry, None, known, archived=True)


def _read_known(
    home: Home,
    scope: str,
    session_id: str,
    entry: os.DirEntry[str],
    runtime: os.DirEntry[str] | None,
    known: Known,
    *,
    archived: bool = False,
) -> SessionRecord | Skipped:
    try:
        status = entry.stat(follow_symlinks=False)
        beside = runtime.stat(follow_symlinks=False) if runtime else None
    except OSError as error:
        return _skip(entry.path, error.strerror or str(error))
    fingerprint = (*to_stamp(status), *(to_stamp(beside) if beside else ()))
    if record := known.find(entry.path, fingerprint):
        return record
    if not stat.S_ISREG(status.st_mode):
        return _skip(entry.path, "not a regular file")
    facts = read_transcript(entry.path)
    if isinstance(facts, Unreadable):
        return _skip(entry.path, facts.reason)
    record = _to_record(home, scope, session_id, entry.path, facts, status.st_mtime, runtime, archived=archived)
    if is_settled(fingerprint):
        known.keep(entry.path, fingerprint, record)
    return record


def _to_record(
    home: Home,
    scope: str,
    session_id: str,
    path: str,
    facts: TranscriptFacts,
    mtime: float,
    runtime: os.DirEntry[str] | None,
    *,
    archived: bool,
) -> SessionRecord:
    notes = facts.notes
    if facts.damaged:
        notes = (*notes, DAMAGED)
    if facts.session_id is not None and facts.session_id.lower() != session_id.lower():
        notes = (*notes, FOREIGN_ID)
    if facts.branched:
        notes = (*notes, TWO_WRITERS)
    if facts.calls_tool:
        notes = (*notes, TOOL_OR_APPROVAL)
    why_not = None
    if not facts.readable:
        why_not = "its transcript has no readable record" if facts.size else "its transcript is empty"
    return SessionRecord(
        provider=NAME,
        home=home.path,
        scope=scope,
        session_id=session_id,
        path=path,
        work_dir=facts.work_dir,
        title=facts.custom_title or facts.first_prompt,
        created_at=facts.created_at,
        updated_at=facts.updated_at if facts.updated_at is not None else mtime,
        durable=facts.readable,
        not_durable_reason=why_not,
        turn=TurnState.IN_TOOL if facts.calls_tool and facts.turn is TurnState.OPEN else facts.turn,
        turn_started_at=facts.turn_started_at,
        unfinished=facts.unfinished,
        recorded_at=facts.updated_at,
        archived=archived,
        sidecar=read_hint(runtime.path) if runtime else None,
        forked_from=facts.forked_from,
        branch=facts.git_branch,
        notes=notes,
    )


def _read_unspoken(
    home: Home, scope: str, session_id: str, entry: os.DirEntry[str], known: Known
) -> SessionRecord | Skipped:
    """A session with a sidecar and no transcript: Qwen writes the latter with the first prompt."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return _skip(entry.path, error.strerror or str(error))
    fingerprint = to_stamp(status)
    if record := known.find(entry.path, fingerprint):
        return record
    runtime = sidecar.read(entry.path)
    said = runtime if isinstance(runtime, sidecar.RuntimeRecord) and runtime.session_id == session_id else None
    record = SessionRecord(
        provider=NAME,
        home=home.path,
        scope=scope,
        session_id=session_id,
        path=entry.path.removesuffix(RUNTIME_SUFFIX) + TRANSCRIPT_SUFFIX,
        work_dir=said.work_dir if said else None,
        title=None,
        created_at=said.started_at if said else None,
        updated_at=said.started_at if said else status.st_mtime,
        durable=False,
        not_durable_reason="it was opened and never prompted, so Qwen wrote no transcript",
        turn=TurnState.NONE,
        sidecar=read_hint(entry.path),
    )
    if is_settled(fingerprint):
        known.keep(entry.path, fingerprint, record)
    return record


def _list_directories(path: str) -> list[os.DirEntry[str]]:
    """Directories in `path`, by name; none when it is not there. Denied is an OSError: the survey tells it."""
    try:
        with os.scandir(path) as entries:
            return sorted((entry for entry in entries if entry.is_dir()), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _list_entries(path: str) -> Entries | Skipped:
    try:
        with os.scandir(path) as entries:
            return {entry.name: entry for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        return Skipped(provider=NAME, path=path, reason=error.strerror or str(error), hides_sessions=True)


def _skip(path: str, reason: str) -> Skipped:
    return Skipped(provider=NAME, path=path, reason=reason)
