"""Codex's rollouts: one log of each thread, where they are, and the lines that say something about a thread."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from msgspec import Raw, Struct

from corral.machine.text import one_line
from corral.providers.codex.processes import is_thread_id
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.transcripts import open_transcript
from corral.sidecar.files import Unreadable

SESSIONS, ARCHIVED = "sessions", "archived_sessions"
COMPRESSED = ".zst"
"""codex 0.166.0 can compress rollouts that were not used for long (its program text, 2026-11)."""
_NAME = re.compile(r"rollout-[0-9T:-]{10,30}-([0-9a-f-]{36})\.jsonl(?:\.zst)?\Z")
_NULL = Raw(b"null")
_HEAD_BUDGET = 4 << 20
"""The first line has the instructions of the CLI in it."""


class Place(NamedTuple):
    """A file that is named as a rollout is."""

    thread_id: str
    entry: os.DirEntry[str]
    archived: bool


class Unlisted(NamedTuple):
    """A directory that could not be listed."""

    path: str
    reason: str


def find_thread_id(name: str) -> str | None:
    found = _NAME.match(name)
    return found[1] if found and is_thread_id(found[1]) else None


def list_places(home: str) -> Iterator[Place | Unlisted]:
    """Every rollout of a home, archived ones last."""
    for name, levels in ((SESSIONS, 3), (ARCHIVED, 0)):
        for entry in _walk(os.path.join(home, name), levels):
            if isinstance(entry, Unlisted):
                yield entry
            elif (thread_id := find_thread_id(entry.name)) is not None:
                yield Place(thread_id, entry, name == ARCHIVED)


def find_rollout(home: str, thread_id: str) -> str | None:
    """Where the log of a thread is now; None when nowhere."""
    found = (one for one in list_places(home) if isinstance(one, Place) and one.thread_id == thread_id)
    return next((one.entry.path for one in found), None)


def _walk(path: str, levels: int) -> Iterator[os.DirEntry[str] | Unlisted]:
    """What is in the directories of the days, which are that far below."""
    try:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield Unlisted(path, error.strerror or str(error))
        return
    for entry in found:
        if not levels:
            yield entry
        elif entry.name.isdigit() and entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, levels - 1)


# The lines.


class _Spawn(Struct):
    parent_thread_id: str | None = None


class _SubAgent(Struct):
    thread_spawn: _Spawn | None = None


class _Source(Struct):
    subagent: _SubAgent | str | None = None


class _Git(Struct):
    branch: str | None = None


class Base(Struct):
    """Where the history of a fork by reference begins: in another rollout, up to a byte."""

    thread_id: str
    end_byte_offset: int | None = None


class Meta(Struct):
    """The first line of a rollout."""

    id: str
    timestamp: str | None = None
    cwd: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    agent_nickname: str | None = None
    source: Raw = _NULL
    git: _Git | None = None
    history_base: Base | None = None

    @property
    def parent(self) -> str | None:
        """Of a sub-agent: the thread that started it."""
        if self.parent_thread_id:
            return self.parent_thread_id
        source = _SOURCE.decode(bytes(self.source))
        subagent = source.subagent if source is not None else None
        spawn = subagent.thread_spawn if isinstance(subagent, _SubAgent) else None
        return spawn.parent_thread_id if spawn is not None else None


class Line(Struct):
    """Any line: what it is about is decoded apart, so that an odd part hides nothing else."""

    type: str
    payload: Raw
    timestamp: str | None = None


_SOURCE = ForeignDecoder(_Source)
_META = ForeignDecoder(Meta)
LINE = ForeignDecoder(Line)


def read_meta(path: str) -> Meta | None:
    """What the first line says; None where it is not what Codex writes."""
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return None
    with transcript:
        first = next(transcript.forward(_HEAD_BUDGET), None)
    return to_meta(first.data) if first is not None else None


def to_meta(data: bytes) -> Meta | None:
    line = LINE.decode(data)
    return _META.decode(bytes(line.payload)) if line is not None and line.type == "session_meta" else None


def to_seconds(timestamp: str | None) -> float | None:
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


class _Part(Struct):
    text: str | None = None


class Item(Struct):
    """Something in a conversation, in the shape of either of the two kinds of lines that have it."""

    type: str
    id: str | None = None
    role: str | None = None
    name: str | None = None
    call_id: str | None = None


class _Said(Struct):
    content: tuple[_Part, ...]


class Event(Struct):
    """Of `event_msg`."""

    type: str
    turn_id: str | None = None
    started_at: float | None = None
    item: Raw = _NULL
    message: str | None = None
    """Of `user_message`, as older versions have it."""
    info: Raw = _NULL


class Context(Struct):
    """Of `turn_context`."""

    cwd: str | None = None
    model: str | None = None


EVENT = ForeignDecoder(Event)
ITEM = ForeignDecoder(Item)
CONTEXT = ForeignDecoder(Context)
_SAID = ForeignDecoder(_Said)

BEGINS = frozenset({"task_started", "turn_started"})
ENDS = frozenset({"task_complete", "turn_complete", "turn_aborted"})


def prompt_of(event: Event) -> str | None:
    """What a person asked, on one line, where the event is that."""
    if event.type == "item_completed":
        item = ITEM.decode(bytes(event.item))
        said = _SAID.decode(bytes(event.item)) if item is not None and item.type == "UserMessage" else None
        return one_line(" ".join(part.text for part in said.content if part.text)) if said is not None else None
    return one_line(event.message) if event.type == "user_message" and event.message else None
