"""Every thread of Codex on disk: its rollout by head and tail, its title from Codex's own index where that is there."""

from __future__ import annotations

import glob
import os
import sqlite3
from collections.abc import Iterator

from msgspec import Struct, structs

from corral.machine.text import one_line
from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import SessionRecord, Skipped, TurnState
from corral.providers.codex.processes import NAME
from corral.providers.codex.rollouts import COMPRESSED, LINE, Line, Meta, Place, list_places
from corral.providers.kit.file_sessions import read_changed
from corral.providers.kit.foreign_db import need_columns, open_foreign
from corral.providers.kit.foreign_values import parse_moment
from corral.providers.kit.transcripts import HEAD_BUDGET, TAIL_BUDGET, Transcript, Unreadable, open_transcript

INDEX = "state_*.sqlite"
"""The number is that of its schema."""
TOOL_OR_APPROVAL = "a tool runs or waits for approval: Codex's rollout does not show which"
FOREIGN_ID = "its first line names another thread than its file does"
_TITLE_CHARACTERS = 480


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Skipped]:
    """Every thread of the home, sub-agents too. A rollout that `known` has with the same fingerprint is not opened."""
    titles = _read_titles(home.path)
    if isinstance(titles, Skipped):
        yield titles
        titles = {}
    seen: dict[str, str] = {}
    for place in list_places(home.path):
        if isinstance(place, Skipped):
            yield place
        elif (first := seen.setdefault(place.thread_id, place.entry.path)) != place.entry.path:
            yield _skip(place.entry.path, f"the same thread is at {first} too")
        else:
            record = read_changed((place.entry,), NAME, known, lambda seen, place=place: _read(home, place, seen))
            title = one_line(titles.get(place.thread_id, "")) if isinstance(record, SessionRecord) else None
            yield structs.replace(record, title=title) if title is not None else record


def _read_titles(home: str) -> dict[str, str] | Skipped:
    """By thread. Without the index a thread is called by its first prompt."""
    found = sorted(glob.glob(os.path.join(glob.escape(home), INDEX)), key=lambda path: (len(path), path))
    if not found:
        return {}
    try:
        with open_foreign(found[-1]) as db:
            need_columns(db, "threads", ("id", "title", "name"))
            title = f"substr(coalesce(nullif(name, ''), title, ''), 1, {_TITLE_CHARACTERS})"
            return dict(db.execute(f"SELECT id, {title} FROM threads").fetchall())
    except sqlite3.Error as error:
        return _skip(found[-1], f"titles can't be read: {error}")


def _read(home: Home, place: Place, seen: os.stat_result) -> SessionRecord | Skipped:
    path = place.entry.path
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable) or path.endswith(COMPRESSED):
        return _skip(
            path, transcript.reason if isinstance(transcript, Unreadable) else "a compressed rollout is not read"
        )
    with transcript:
        found = _read_rollout(transcript)
    meta = found.meta
    why_not = _find_obstacle(found)
    if meta is not None and meta.id != place.thread_id:
        found.notes.append(FOREIGN_ID)
    branch = meta.git.branch if meta is not None and meta.git is not None else None
    return SessionRecord(
        provider=NAME,
        home=home.path,
        scope="",
        session_id=place.thread_id,
        path=path,
        # A thread that is resumed elsewhere goes on there.
        work_dir=found.work_dir or (meta.cwd if meta is not None else None),
        title=found.first_prompt,
        created_at=parse_moment(meta.timestamp) if meta is not None else None,
        updated_at=found.recorded_at or seen.st_mtime,
        durable=why_not is None,
        not_durable_reason=why_not,
        turn=found.turn,
        turn_started_at=found.turn_started_at,
        unfinished=found.unfinished,
        recorded_at=found.recorded_at,
        archived=place.archived,
        forked_from=one_line(meta.forked_from_id) if meta is not None and meta.forked_from_id else None,
        parent_id=meta.parent if meta is not None else None,
        branch=one_line(branch) if branch else None,
        notes=tuple(found.notes),
    )


def _find_obstacle(found: _Rollout) -> str | None:
    """Why Codex could not resume it: it needs the first line (0.166.0, 2026-11)."""
    if found.meta is None:
        return "its rollout is empty" if not found.size else "its rollout does not begin with what Codex writes there"
    if found.turn is TurnState.NONE and found.meta.history_base is None:
        return "it was never prompted"
    return None


class _Rollout(Struct):
    """What a bounded look at one rollout found."""

    size: int = 0
    meta: Meta | None = None
    first_prompt: str | None = None
    turn: TurnState = TurnState.NONE
    turn_started_at: float | None = None
    unfinished: str | None = None
    work_dir: str | None = None
    recorded_at: float | None = None
    notes: list[str] = []


def _read_rollout(transcript: Transcript) -> _Rollout:
    found = _Rollout(size=transcript.size)
    for number, line in enumerate(transcript.forward(HEAD_BUDGET)):
        if number == 0:
            first = LINE.decode(line.data)
            found.meta = first.meta if first is not None else None
        elif b'"UserMessage"' in line.data or b'"user_message"' in line.data:
            record = LINE.decode(line.data)
            event = record.event if record is not None else None
            found.first_prompt = event.prompt.text if event is not None and event.prompt is not None else None
        if found.first_prompt is not None:
            break
    _read_tail(transcript, found)
    return found


def _read_tail(transcript: Transcript, found: _Rollout) -> None:
    """Backwards to where the last turn began or ended."""
    tail = _Tail(found)
    for line in transcript.backward(TAIL_BUDGET):
        record = LINE.decode(line.data)
        if record is None:
            if line.ended:
                tail.damaged = True
            continue
        if found.recorded_at is None:
            found.recorded_at = record.at
        tail.take(record)
        if tail.decided and found.work_dir is not None:
            break
    if tail.damaged:
        # codex 0.166.0 drops such a line and goes on (2026-11)
        found.notes.append("some lines of its rollout are unreadable")
    if not tail.decided:
        if transcript.exhausted:
            found.turn = TurnState.UNREADABLE
            found.notes.append(f"no turn in the last {TAIL_BUDGET >> 20} MiB of its rollout, the rest was not read")
        elif tail.last_role is not None:  # the oldest rollouts have no lines for turns
            found.turn = TurnState.ENDED if tail.last_role == "assistant" else TurnState.OPEN
    if found.turn is TurnState.IN_TOOL:
        found.notes.append(TOOL_OR_APPROVAL)


class _Tail:
    """What was met, reading backwards."""

    def __init__(self, found: _Rollout) -> None:
        self.decided = False
        self.damaged = False
        self.last_role: str | None = None
        self._found = found
        self._answered: set[str] = set()
        """Calls of tools whose output came."""
        self._in_tool = False

    def take(self, line: Line) -> None:
        found = self._found
        if (context := line.context) is not None and found.work_dir is None:
            found.work_dir = context.cwd
        elif self.decided:
            return
        elif (event := line.event) is not None:
            self.decided = event.begins_turn or event.ends_turn
            if event.ends_turn:
                found.turn, found.unfinished = TurnState.ENDED, None
            elif event.begins_turn:
                found.turn = TurnState.IN_TOOL if self._in_tool else TurnState.OPEN
                found.turn_started_at = line.at
            elif (prompt := event.prompt) is not None:
                found.unfinished = prompt.text
        elif (item := line.item) is not None:
            if item.type == "message" and item.role in ("user", "assistant"):
                self.last_role = self.last_role or item.role
            elif item.call_id is not None and item.type.endswith("_call_output"):
                self._answered.add(item.call_id)
            elif item.call_id is not None and item.type.endswith("_call"):
                self._in_tool = self._in_tool or item.call_id not in self._answered


def _skip(path: str, reason: str) -> Skipped:
    return Skipped(provider=NAME, path=path, reason=reason)
