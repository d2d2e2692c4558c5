"""Qwen's sessions on disk: transcripts, archived ones, and sessions that were opened and never spoken to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from corral import sidecar
from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import SessionRecord, Skipped, TurnState
from corral.providers.qwen_code.homes import NAME, find_data_root
from corral.providers.qwen_code.places import LEDGER_SUFFIX, RUNTIME_SUFFIX, TRANSCRIPT_SUFFIX, is_session_id
from corral.providers.qwen_code.transcript import TranscriptFacts, read_transcript
from corral.system.runtime_claims import read_hint
from corral.system.stamped import is_settled
from corral.system.stamps import to_stamp
from corral.system.transcripts import Unreadable

DAMAGED = "some lines are unreadable: a resume may lose what stands before them"
FOREIGN_ID = "its records name another session than its file does"
TWO_WRITERS = "two processes wrote to it at once: a resume follows the branch that was written last"
TOOL_OR_APPROVAL = "a tool runs or waits for approval: Qwen's transcript does not tell which"

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
                yield _skip(entry.path, "its name is no session id")
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
