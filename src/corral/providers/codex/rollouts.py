"""Codex's rollouts: one log of each thread, where they are, and the lines that say something about a thread."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Raw, Struct

from corral.machine.text import one_line
from corral.machine.visits import Visits
from corral.model.record import Skipped
from corral.providers.codex.processes import NAME, is_thread_id
from corral.providers.kit.file_sessions import list_entries
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.foreign_values import TextAt, parse_moment
from corral.providers.kit.transcripts import open_transcript
from corral.sidecar.files import Unreadable

SESSIONS, ARCHIVED = "sessions", "archived_sessions"
COMPRESSED = ".zst"
"""codex 0.166.0 can compress rollouts that were not used for long (its program text, 2026-11). They are not read."""
_NAME = re.compile(r"rollout-[0-9T:-]{10,30}-([0-9a-f-]{36})\.jsonl(?:\.zst)?\Z")
_NULL = Raw(b"null")
_HEAD_BUDGET = 4 << 20
"""The first line has the instructions of the CLI in it."""


class Place(NamedTuple):
    """A file that is named as a rollout is."""

    thread_id: str
    entry: os.DirEntry[str]
    archived: bool


def find_thread_id(name: str) -> str | None:
    found = _NAME.match(name)
    return found[1] if found and is_thread_id(found[1]) else None


def list_places(home: str, visits: Visits | None = None) -> Iterator[Place | Skipped]:
    """Every rollout of a home, archived ones last; and what could not be listed."""
    for name, levels in ((SESSIONS, 3), (ARCHIVED, 0)):
        for entry in _walk(os.path.join(home, name), levels, visits):
            if isinstance(entry, Skipped):
                yield entry
            elif (thread_id := find_thread_id(entry.name)) is not None:
                yield Place(thread_id, entry, name == ARCHIVED)


def find_rollout(home: str, thread_id: str) -> str | None:
    """Where the log of a thread is now; None when nowhere."""
    found = (one for one in list_places(home) if isinstance(one, Place) and one.thread_id == thread_id)
    return next((one.entry.path for one in found), None)


def _walk(path: str, levels: int, visits: Visits | None) -> Iterator[os.DirEntry[str] | Skipped]:
    """What is in the directories of the days, which are that far below."""
    try:
        found = list_entries(path, visits)
    except OSError as error:
        yield Skipped(provider=NAME, path=path, reason=error.strerror or str(error), hides_sessions=True)
        return
    for entry in found:
        if not levels:
            yield entry
        elif entry.name.isdigit() and entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, levels - 1, visits)


# The lines. What one is about is decoded apart, so that an odd part hides nothing else.


class _Git(Struct):
    branch: str | None = None


class _Base(Struct):
    """Of a fork: whose history comes before."""

    thread_id: str


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
    history_base: _Base | None = None

    @property
    def parent(self) -> str | None:
        """Of a sub-agent: the thread that started it."""
        return self.parent_thread_id or _PARENT.find(bytes(self.source))


class Context(Struct):
    """What holds for a turn."""

    cwd: str | None = None
    model: str | None = None


class Item(Struct):
    """Something in a conversation."""

    type: str
    id: str | None = None
    role: str | None = None
    name: str | None = None
    call_id: str | None = None


class Event(Struct):
    """Something that happened."""

    type: str
    turn_id: str | None = None
    item: Raw = _NULL
    message: str | None = None
    """Of `user_message`, as older versions have it."""
    info: Raw = _NULL

    @property
    def begins_turn(self) -> bool:
        return self.type in ("task_started", "turn_started")

    @property
    def ends_turn(self) -> bool:
        return self.type in ("task_complete", "turn_complete", "turn_aborted")

    @property
    def prompt(self) -> Said | None:
        """What a person asked, where the event is that."""
        if self.type == "user_message":
            return Said(self.type, (_Part(self.message),))
        said = _SAID.decode(bytes(self.item)) if self.type == "item_completed" else None
        return said if said is not None and said.type == "UserMessage" else None


class _Part(Struct):
    text: str | None = None


class Said(Struct):
    """A prompt."""

    type: str
    content: tuple[_Part, ...]
    id: str | None = None

    @property
    def text(self) -> str | None:
        """On one line."""
        return one_line(" ".join(part.text for part in self.content if part.text))


class Line(Struct):
    """Any line of a rollout."""

    type: str
    payload: Raw
    timestamp: str | None = None

    @property
    def at(self) -> float | None:
        """Epoch seconds."""
        return parse_moment(self.timestamp)

    @property
    def meta(self) -> Meta | None:
        return _META.decode(bytes(self.payload)) if self.type == "session_meta" else None

    @property
    def event(self) -> Event | None:
        return _EVENT.decode(bytes(self.payload)) if self.type == "event_msg" else None

    @property
    def item(self) -> Item | None:
        return _ITEM.decode(bytes(self.payload)) if self.type == "response_item" else None

    @property
    def context(self) -> Context | None:
        return _CONTEXT.decode(bytes(self.payload)) if self.type == "turn_context" else None


LINE = ForeignDecoder(Line)
_ITEM = ForeignDecoder(Item)
_META = ForeignDecoder(Meta)
_PARENT = TextAt("subagent", "thread_spawn", "parent_thread_id")
_EVENT = ForeignDecoder(Event)
_CONTEXT = ForeignDecoder(Context)
_SAID = ForeignDecoder(Said)


def read_meta(path: str) -> Meta | None:
    """What the first line says; None where it is not what Codex writes."""
    return next(list_metas(path), None)


def list_metas(path: str) -> Iterator[Meta]:
    """That, and the first lines of the threads that it comes from: older forks begin with copies of all their lines."""
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return
    with transcript:
        for data in transcript.forward(_HEAD_BUDGET):
            line = LINE.decode(data.data)
            meta = line.meta if line is not None else None
            if meta is None:
                return
            yield meta
