"""Claude Code's sessions on disk: transcripts by their head and tail, in a directory for each project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import Raw, Struct

from corral.machine.stamps import Group, read_stamps
from corral.machine.text import one_line
from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped, TurnState
from corral.providers.claude_code.processes import NAME
from corral.providers.kit.bucket_sessions import find_repeated
from corral.providers.kit.file_sessions import scan
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.stamped import Stamped, list_stamped
from corral.providers.kit.transcripts import TAIL_BUDGET, Transcript, open_transcript
from corral.sidecar.files import Unreadable, read_regular

REPEATED = "the same id exists in another project: these are two sessions"
FOREIGN_ID = "its last records name another session than its file does"
DAMAGED = "some lines are unreadable: Claude passes over them"

_SUFFIX = ".jsonl"
_SESSION_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9]")
_LONGEST_SCOPE = 200
_HEAD_BUDGET = 16 << 20
"""A first prompt with a pasted image is several megabytes on one line."""
_HEAD_LINES = 400
_TITLE_WINDOW = 64 << 10
_KEPT_DAYS = 30
"""2.1.325: what a start may delete, unless settings.json says another number of days (read, 2026-11)."""
_SETTINGS_LIMIT = 4 << 20


def is_session_id(name: str) -> bool:
    return _SESSION_ID.match(name) is not None


def encode_project(work_dir: str) -> str | None:
    """The name of a project's directory. It collides and can't be turned back; None where a checksum is in it, too."""
    # JavaScript replaces UTF-16 units: a character beyond the basic plane becomes two dashes.
    name = _NOT_PLAIN.sub(lambda match: "--" if ord(match[0]) > 0xFFFF else "-", work_dir)
    return name if len(name) <= _LONGEST_SCOPE else None


class Project(Struct, frozen=True):
    """The transcripts of one project, by name only: nothing in them was looked at."""

    scope: str
    path: str
    files: tuple[str, ...]


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Resting | Skipped]:
    """Every session of the home. A transcript that `known` has with the same stamps is not opened."""
    projects: list[Project] = []
    for found in _list_projects(home.path):
        if isinstance(found, Project):
            projects.append(found)
        else:
            yield found
    repeated = find_repeated(project.files for project in projects)
    kept_s = 86400.0 * _read_kept_days(home.path)
    groups = [Group(project.path, project.files) for project in projects]
    for project, stamps in zip(projects, read_stamps(groups, known.load), strict=True):
        reader = _Reader(home.path, project, repeated, kept_s)
        seen = Stamped(project.path, project.files, ("",), stamps)
        outside = (sorted(repeated.intersection(project.files)), kept_s)
        yield from list_stamped(seen, known, outside, reader.fingerprint, reader.read)


def _list_projects(home: str) -> Iterator[Project | Skipped]:
    for entry in scan(NAME, f"{home}/projects"):
        if isinstance(entry, Skipped):
            yield entry
        elif entry.is_dir(follow_symlinks=False):
            yield from _list_project(entry.name, entry.path)
        elif entry.is_symlink():
            yield Skipped(provider=NAME, path=entry.path, reason="a link in the place of a project")


def _list_project(scope: str, path: str) -> Iterator[Project | Skipped]:
    files: list[str] = []
    for entry in scan(NAME, path):
        if isinstance(entry, Skipped):
            yield entry
        elif not entry.name.endswith(_SUFFIX) or entry.name.startswith("agent-"):
            continue  # the session's own directory, notes, or the log of a sub-agent of an older version
        elif not is_session_id(entry.name.removesuffix(_SUFFIX)):
            yield Skipped(provider=NAME, path=entry.path, reason="its name is not a session id")
        elif not entry.is_file(follow_symlinks=False):
            yield Skipped(provider=NAME, path=entry.path, reason="not a regular file")
        else:
            files.append(entry.name)
    yield Project(scope, path, tuple(sorted(files)))


class _Reader(Struct, frozen=True):
    """Reads the sessions of one project."""

    home: str
    project: Project
    repeated: frozenset[str]
    kept_s: float

    def fingerprint(self, file: str) -> tuple[int, ...]:
        return (int(file in self.repeated), int(self.kept_s))

    def read(self, file: str) -> SessionRecord:
        path, session_id = f"{self.project.path}/{file}", file.removesuffix(_SUFFIX)
        looked, mtime = _Look(), None
        transcript = open_transcript(path)
        if isinstance(transcript, Unreadable):
            looked.turn, why_not = TurnState.UNREADABLE, f"its transcript can't be read: {transcript.reason}"
        else:
            with transcript:
                _read_head(transcript, looked)
                _read_tail(transcript, looked)
            mtime = transcript.stat.st_mtime
            why_not = "its transcript has no message" if transcript.size else "its transcript is empty"
        notes = {
            DAMAGED: looked.damaged,
            FOREIGN_ID: looked.named is not None and looked.named.lower() != session_id.lower(),
            REPEATED: file in self.repeated,
        }
        return SessionRecord(
            provider=NAME,
            home=self.home,
            scope=self.project.scope,
            session_id=session_id,
            path=path,
            work_dir=looked.work_dir,
            title=looked.given_title or looked.made_title or looked.first_prompt,
            created_at=looked.created_at,
            updated_at=mtime if looked.updated_at is None else looked.updated_at,
            durable=looked.readable,
            not_durable_reason=None if looked.readable else why_not,
            turn=looked.turn,
            turn_started_at=looked.asked_at,
            unfinished=looked.asked,
            recorded_at=looked.updated_at,
            expires_at=None if mtime is None else mtime + self.kept_s,
            forked_from=looked.forked_from,
            branch=looked.branch,
            notes=tuple(note for note, holds in notes.items() if holds),
        )


class _Look(Struct):
    """What a bounded look at one transcript found. Times are epoch seconds."""

    readable: bool = False
    """It has a message, or one may be beyond the budget."""
    named: str | None = None
    """The session that its last message names."""
    work_dir: str | None = None
    created_at: float | None = None
    updated_at: float | None = None
    first_prompt: str | None = None
    given_title: str | None = None
    """A person's."""
    made_title: str | None = None
    forked_from: str | None = None
    branch: str | None = None
    turn: TurnState = TurnState.NONE
    asked: str | None = None
    asked_at: float | None = None
    damaged: bool = False
    """A line that was ended could not be read."""

    @property
    def wants_prompt(self) -> bool:
        """The turn is open, and what was asked was not found yet."""
        return self.turn in (TurnState.OPEN, TurnState.IN_TOOL) and self.asked is None


def _read_head(transcript: Transcript, look: _Look) -> None:
    for number, line in enumerate(transcript.forward(_HEAD_BUDGET)):
        if number >= _HEAD_LINES:
            return
        record = LINE.decode(line.data)
        if record is None:
            look.damaged = look.damaged or line.ended
            continue
        look.created_at = look.created_at or parse_moment(record.timestamp)
        look.work_dir = look.work_dir or record.cwd
        look.forked_from = look.forked_from or record.origin
        if record.type in ("user", "assistant"):
            look.readable = True
            if text := find_prompt(record):
                look.first_prompt = one_line(text)
                return
    look.readable = look.readable or transcript.exhausted


def _read_tail(transcript: Transcript, look: _Look) -> None:
    """From the end on: what is found first is what holds."""
    decided = damaged = False
    requested_at = 0.0  # the line of a request may come late, even behind the end of its turn
    for line in transcript.backward(TAIL_BUDGET):
        is_far = line.offset < transcript.size - _TITLE_WINDOW
        if decided and is_far and not look.wants_prompt:
            break
        record = LINE.decode(line.data)
        if record is None:
            damaged = damaged or line.ended
            continue
        look.updated_at = look.updated_at or parse_moment(record.timestamp)
        look.given_title = look.given_title or one_line(record.customTitle or "")
        look.made_title = look.made_title or one_line(record.aiTitle or "")
        if record.type == "api-request" and record.querySource in _MAIN_SOURCES:
            requested_at = max(requested_at, parse_moment(record.timestamp) or 0.0)
        if not decided and (turn := decide_turn(record)) is not None:
            is_older = requested_at > (parse_moment(record.timestamp) or 0.0)
            decided, look.turn = True, TurnState.OPEN if turn is TurnState.ENDED and is_older else turn
            look.named, look.branch = record.sessionId, one_line(record.gitBranch or "") or None
        if look.wants_prompt and (text := find_prompt(record)):
            look.asked, look.asked_at = one_line(text), parse_moment(record.timestamp)
    look.damaged = look.damaged or damaged
    if not decided:
        is_cut = transcript.exhausted or damaged
        look.turn = TurnState.UNREADABLE if is_cut else TurnState.OPEN if requested_at else look.turn


def decide_turn(record: Line) -> TurnState | None:
    """The state of the last turn while this record is the last; None if it says nothing of it.

    2.1.325 (2026-11): a turn ends with `turn_duration` or `stop_hook_summary`, both `system`; one that Escape ended
    with a message of its own.
    """
    if record.isSidechain:
        return None
    if record.type == "system":
        return TurnState.ENDED if record.subtype in _TURN_ENDS else None
    if record.type == "assistant":
        message = read_message(record)
        if any(block.type == "tool_use" for block in message.blocks):
            return TurnState.IN_TOOL
        return TurnState.OPEN if message.stop_reason in (None, "tool_use", "pause_turn") else TurnState.ENDED
    if record.type != "user" or record.isMeta or record.isCompactSummary:
        return None
    text = read_message(record).text
    if text.startswith(_INTERRUPTED):
        return TurnState.ENDED
    return None if text.startswith(_COMMANDS) else TurnState.OPEN


def find_prompt(record: Line) -> str | None:
    """What a person asked; None if the record is no prompt."""
    if record.type != "user" or record.isSidechain or record.isMeta or record.isCompactSummary:
        return None
    message = read_message(record)
    if any(block.type == "tool_result" for block in message.blocks):
        return None
    text = message.text
    return text if text and not text.startswith((*_COMMANDS, _INTERRUPTED, _NOTIFICATION)) else None


def read_message(record: Line) -> Message:
    return _MESSAGE.decode(bytes(record.message)) or Message()


def parse_moment(text: str | None) -> float | None:
    """An ISO time in epoch seconds; None for what is none, or does not name its zone."""
    try:
        moment = datetime.fromisoformat(text) if text else None
        return moment.timestamp() if moment is not None and moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _read_kept_days(home: str) -> float:
    """For how many days Claude keeps a transcript that nobody touches."""
    content = read_regular(os.path.join(home, "settings.json"), _SETTINGS_LIMIT)
    settings = None if isinstance(content, Unreadable) else _SETTINGS.decode(content.data)
    days = settings.cleanupPeriodDays if settings else None
    return _KEPT_DAYS if days is None else max(days, 1)


_TURN_ENDS = frozenset({"turn_duration", "stop_hook_summary"})
_MAIN_SOURCES = frozenset({"repl_main_thread", "sdk"})
_INTERRUPTED = "[Request interrupted"
_COMMANDS = ("<command-name>", "<command-message>", "<local-command-", "<bash-")
"""How a command to Claude itself, and what it printed, are written down."""
_NOTIFICATION = "<task-notification>"
"""Begins a turn that nobody asked for: a sub-agent in the background is done."""


class Block(Struct):
    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw(b"")


class Message(Struct):
    content: str | list[Block] | None = None
    stop_reason: str | None = None

    @property
    def blocks(self) -> list[Block]:
        return self.content if isinstance(self.content, list) else []

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return next((block.text for block in self.blocks if block.type == "text" and block.text), "")


class _Fork(Struct):
    sessionId: str | None = None


class Line(Struct):
    """One record of a transcript. Its message, which may be long, is read only where it matters."""

    type: str
    uuid: str | None = None
    subtype: str | None = None
    sessionId: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    gitBranch: str | None = None
    isSidechain: bool = False
    isMeta: bool = False
    isCompactSummary: bool = False
    forkedFrom: _Fork | None = None
    requestId: str | None = None
    agentId: str | None = None
    interruptedMessageId: str | None = None
    querySource: str | None = None
    customTitle: str | None = None
    aiTitle: str | None = None
    message: Raw = Raw(b"")

    @property
    def origin(self) -> str | None:
        """The session that it was copied from; None if it is no copy, or does not say so."""
        return self.forkedFrom.sessionId if self.forkedFrom else None


class _Settings(Struct):
    cleanupPeriodDays: float | None = None


LINE = ForeignDecoder(Line)
_MESSAGE = ForeignDecoder(Message)
_SETTINGS = ForeignDecoder(_Settings)
