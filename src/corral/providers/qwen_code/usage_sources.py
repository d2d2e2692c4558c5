"""The files in which Qwen records what it spent, and what a transcript's first records say of where it comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from msgspec import Struct

from corral.model.key import Home
from corral.model.usage import UsageSource
from corral.providers.qwen_code.homes import NAME, find_data_root
from corral.providers.qwen_code.places import TRANSCRIPT_SUFFIX, is_session_id
from corral.providers.qwen_code.usage_lines import FIRST
from corral.sidecar.files import Unreadable, open_regular
from corral.system.transcripts import open_transcript
from corral.system.visits import Visits

_HEAD_BUDGET = 16 << 20
_HEAD_LINES = 4
_FIRST_BYTES = 4 << 10
_MOST_FORKS = 32
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
            generation=_count_forks(os.path.join(root, "projects", scope, "chats"), head),
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


def _count_forks(chats: str, head: _Head) -> int:
    """How many forks lead to a session from the first one, as far as their transcripts still tell."""
    count = 0
    while head.parent_id and count < _MOST_FORKS:
        count += 1
        name = head.parent_id + TRANSCRIPT_SUFFIX
        paths = os.path.join(chats, name), os.path.join(chats, "archive", name)
        head = _read_head(paths[0] if os.path.exists(paths[0]) else paths[1])
    return count


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
    if ended and b'"session_source"' not in first and (record := FIRST.decode(first)):
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
            if record := FIRST.decode(line.data):
                head.work_dir = head.work_dir or record.cwd
                head.parent_id = record.origin
    return head
