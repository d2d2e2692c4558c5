"""Qwen's sessions on disk: what a record of a transcript is, and which sessions there are."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from msgspec import UNSET, Struct, UnsetType

from corral import sidecar
from corral.machine.visits import Visits
from corral.model.key import Home, SessionKey
from corral.model.known import Known
from corral.model.record import SessionRecord, Skipped, TurnState
from corral.providers.kit.conversations import ConversationForm, Kind, Said, read_conversation
from corral.providers.kit.file_sessions import list_entries, read_changed
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.foreign_values import TextAt
from corral.providers.kit.runtime_claims import read_hint
from corral.providers.kit.transcripts import Unreadable, open_transcript
from corral.providers.qwen_code.homes import NAME, find_data_root, is_session_id

TRANSCRIPT_SUFFIX = ".jsonl"
_RUNTIME_SUFFIX = ".runtime.json"
_LEDGER_SUFFIX = ".ledger.jsonl"
"""Of a file that the daemon keeps beside a transcript; it is no session."""

# The transcript's format, once: each reader names the view that has the fields it needs.

RECORD_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_SYSTEM_KINDS = {
    "custom_title": Kind.TITLE,
    "turn_result": Kind.TURN_END,  # the ACP server writes it at the end of a turn
    "rewind": Kind.TURN_END,  # only possible between turns
}
SLASH_COMMAND = re.compile(r"\s*/[A-Za-z][\w:.-]*(\s|\Z)")


class Link(Struct):
    """Any record: what a resume follows."""

    type: str
    uuid: str | None = None
    parentUuid: str | UnsetType | None = UNSET
    sessionId: str | None = None
    subtype: str | None = None


class Call(Struct):
    """Nothing of a tool call is kept: that there is one is enough."""


class Part(Struct):
    text: str | None = None
    functionCall: Call | None = None


class Message(Struct):
    parts: tuple[Part, ...] | None = None


class Fork(Struct):
    sessionId: str | None = None


class Record(Link):
    """With what was said, when and where."""

    timestamp: str | None = None
    cwd: str | None = None
    gitBranch: str | None = None
    message: Message | None = None
    forkedFrom: Fork | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        return (self.message.parts if self.message else None) or ()

    @property
    def text(self) -> str | None:
        return next((part.text for part in self.parts if part.text and not part.text.isspace()), None)

    @property
    def kind(self) -> Kind:
        if self.type == "system":
            return _SYSTEM_KINDS.get(self.subtype or "", Kind.ASIDE)
        if self.type == "assistant":
            return Kind.CALL if any(part.functionCall is not None for part in self.parts) else Kind.ANSWER
        if self.type == "user" and self.subtype is None:
            return Kind.PROMPT  # notifications and messages that steer a running turn have a subtype
        return Kind.INPUT if self.type in RECORD_TYPES else Kind.FOREIGN


RECORD = ForeignDecoder(Record)
_TITLE = TextAt("systemPayload", "customTitle")
_DISPLAYED = TextAt("systemPayload", "displayText")
"""What the person typed, where a hook or a command has added to it (qwen 0.24.4, 2026-11)."""


def _read_said(line: bytes) -> Said | None:
    record = RECORD.decode(line)
    if record is None:
        return None
    kind, text = record.kind, None
    if kind is Kind.TITLE:
        text = _TITLE.find(line)
    elif kind is Kind.PROMPT:
        text = (_DISPLAYED.find(line) if b'"displayText"' in line else None) or record.text
    return Said(
        kind=kind,
        text=text,
        timestamp=record.timestamp,
        session_id=record.sessionId,
        work_dir=record.cwd,
        parent=record.parentUuid or None,
        forked_from=record.forkedFrom.sessionId if record.forkedFrom else None,
        branch=record.gitBranch,
    )


_FORM = ConversationForm(_read_said, SLASH_COMMAND.match)


def list_chats(root: str, visits: Visits | None = None) -> Iterator[tuple[str, str]]:
    """Every directory of transcripts below a data root, with its project: the active ones, then their archive."""
    for project in list_entries(os.path.join(root, "projects"), visits):
        if project.is_dir():
            yield project.name, os.path.join(project.path, "chats")
            yield project.name, os.path.join(project.path, "chats", "archive")


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Skipped]:
    """Every session of the home. A transcript that `known` has with the same fingerprint is not opened."""
    root = find_data_root(home)
    if root is None:
        reason = "advanced.runtimeOutputDir is relative: sessions are in each project's own directory, and not listed"
        yield _skip(os.path.join(home.path, "settings.json"), reason)
        return
    active: dict[str, os.DirEntry[str]] = {}
    for scope, directory in list_chats(root):
        archived = directory.endswith("/archive")
        try:
            entries = {entry.name: entry for entry in list_entries(directory)}
        except OSError as error:
            yield Skipped(provider=NAME, path=directory, reason=error.strerror or str(error), hides_sessions=True)
            entries = {}
        if not archived:
            active = entries
        for name, entry in entries.items():
            session_id, runtime_of = name.removesuffix(TRANSCRIPT_SUFFIX), name.removesuffix(_RUNTIME_SUFFIX)
            if session_id != name:
                if archived and name in active:
                    yield _skip(entry.path, "the same session is there unarchived too")
                elif is_session_id(session_id):
                    key = SessionKey(NAME, home.path, scope, session_id)
                    runtime = None if archived else entries.get(session_id + _RUNTIME_SUFFIX)
                    yield _read_session(key, entry, runtime, known, archived=archived)
                elif not name.endswith(_LEDGER_SUFFIX):
                    yield _skip(entry.path, "its name is not a session id")
            elif is_session_id(runtime_of) and runtime_of + TRANSCRIPT_SUFFIX not in entries and not archived:
                yield _read_unprompted(SessionKey(NAME, home.path, scope, runtime_of), entry, known)


def _read_session(
    key: SessionKey, entry: os.DirEntry[str], runtime: os.DirEntry[str] | None, known: Known, *, archived: bool
) -> SessionRecord | Skipped:
    def read(seen: os.stat_result) -> SessionRecord | Skipped:
        transcript = open_transcript(entry.path) if stat.S_ISREG(seen.st_mode) else Unreadable("not a regular file")
        if isinstance(transcript, Unreadable):
            return _skip(entry.path, transcript.reason)
        with transcript:
            found = read_conversation(transcript, _FORM)
        hint = read_hint(runtime.path) if runtime else None
        return found.to_record(key, entry.path, transcript.size, seen.st_mtime, archived=archived, sidecar=hint)

    return read_changed([entry, runtime] if runtime else [entry], NAME, known, read)


def _read_unprompted(key: SessionKey, entry: os.DirEntry[str], known: Known) -> SessionRecord | Skipped:
    """A session that has a runtime.json and no transcript: Qwen writes that with the first prompt."""

    def read(seen: os.stat_result) -> SessionRecord:
        runtime = sidecar.read(entry.path)
        said = runtime if isinstance(runtime, sidecar.RuntimeRecord) and runtime.session_id == key.session_id else None
        return SessionRecord(
            provider=NAME,
            home=key.home,
            scope=key.scope,
            session_id=key.session_id,
            path=entry.path.removesuffix(_RUNTIME_SUFFIX) + TRANSCRIPT_SUFFIX,
            work_dir=said.work_dir if said else None,
            title=None,
            created_at=said.started_at if said else None,
            updated_at=said.started_at if said else seen.st_mtime,
            durable=False,
            not_durable_reason="it was opened and never prompted, so Qwen wrote no transcript",
            turn=TurnState.NONE,
            sidecar=read_hint(entry.path),
        )

    return read_changed([entry], NAME, known, read)


def _skip(path: str, reason: str) -> Skipped:
    return Skipped(provider=NAME, path=path, reason=reason)
