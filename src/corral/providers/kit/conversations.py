"""Transcripts with a message on each line: their head and tail tell title, directory, times and the last turn."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, auto

from msgspec import Struct

from corral.machine.text import one_line
from corral.model.key import SessionKey
from corral.model.record import SessionRecord, SidecarHint, TurnState
from corral.providers.kit.foreign_values import parse_moment
from corral.providers.kit.transcripts import TAIL_BUDGET, Transcript

HEAD_BUDGET = 16 << 20
"""A first prompt with a pasted image is several megabytes on one line; reading stops once it was read."""
_HEAD_LINES = 200
_WINDOW = 64 << 10
"""How far from either end titles and damage are looked for, once the rest is known."""

DAMAGED = "some lines are unreadable: a resume may lose what comes before them"
FOREIGN_ID = "its records name another session than its file does"
TWO_WRITERS = "two processes wrote to it at once: a resume follows the branch that was written last"
TOOL_OR_APPROVAL = "a tool runs or waits for approval: its transcript does not show which"


class Kind(IntEnum):
    """What a record is."""

    PROMPT = auto()
    """Typed by a person."""
    INPUT = auto()
    """What else the model is given: a tool's result, a notification."""
    CALL = auto()
    """The model calls a tool."""
    ANSWER = auto()
    """The model answers and calls no tool."""
    TURN_END = auto()
    """Not a message; it shows that no turn is open."""
    TITLE = auto()
    """A person names the session."""
    ASIDE = auto()
    """Any other record of the session."""
    FOREIGN = auto()
    """Not a record of a session: passed over."""


_MESSAGES = frozenset({Kind.PROMPT, Kind.INPUT, Kind.CALL, Kind.ANSWER})
_TURNS = {
    Kind.PROMPT: TurnState.OPEN,
    Kind.INPUT: TurnState.OPEN,
    Kind.CALL: TurnState.IN_TOOL,
    Kind.ANSWER: TurnState.ENDED,
    Kind.TURN_END: TurnState.ENDED,
}
"""The state of the turn while such a record is the last."""


class Said(Struct, kw_only=True):
    """One record of a transcript, in our words."""

    kind: Kind
    text: str | None = None
    """Of a prompt or a title."""
    timestamp: str | None = None
    session_id: str | None = None
    work_dir: str | None = None
    parent: str | None = None
    """The record that it follows."""
    forked_from: str | None = None
    branch: str | None = None


class Conversation(Struct, kw_only=True):
    """What a bounded look at one transcript found."""

    first: Said | None = None
    newest: Said | None = None
    last: Said | None = None
    """The newest that decides about the turn."""
    first_prompt: str | None = None
    """The first that is no command to the CLI itself."""
    open_prompt: Said | None = None
    """Of an open turn, what was asked."""
    title: str | None = None
    turn: TurnState = TurnState.NONE
    readable: bool = False
    """At least one record was read, or there may be one beyond the budget."""
    damaged: bool = False
    """A line that was ended could not be read."""
    branched: bool = False
    """Near the end two messages follow the same one: two processes wrote."""
    notes: list[str] = []

    @property
    def wants_prompt(self) -> bool:
        """The turn is open, and what was asked was not found yet."""
        is_open = self.turn is TurnState.OPEN or self.turn is TurnState.IN_TOOL
        return is_open and not (self.open_prompt and self.open_prompt.text)

    def to_record(
        self, key: SessionKey, path: str, size: int, mtime: float, *, archived: bool, sidecar: SidecarHint | None
    ) -> SessionRecord:
        first, nothing = self.first or Said(kind=Kind.ASIDE), Said(kind=Kind.ASIDE)
        updated_at = parse_moment((self.newest or nothing).timestamp)
        asked, branch = self.open_prompt or nothing, (self.last or nothing).branch
        is_foreign = first.session_id is not None and first.session_id.lower() != key.session_id.lower()
        notes = {
            DAMAGED: self.damaged,
            FOREIGN_ID: is_foreign,
            TWO_WRITERS: self.branched,
            TOOL_OR_APPROVAL: self.turn is TurnState.IN_TOOL,
        }
        why_not = "its transcript has no readable record" if size else "its transcript is empty"
        return SessionRecord(
            provider=key.provider,
            home=key.home,
            scope=key.scope,
            session_id=key.session_id,
            path=path,
            work_dir=first.work_dir,
            title=self.title or self.first_prompt,
            created_at=parse_moment(first.timestamp),
            updated_at=mtime if updated_at is None else updated_at,
            durable=self.readable,
            not_durable_reason=None if self.readable else why_not,
            turn=self.turn,
            turn_started_at=parse_moment(asked.timestamp),
            unfinished=one_line(asked.text or ""),
            recorded_at=updated_at,
            archived=archived,
            sidecar=sidecar,
            forked_from=first.forked_from,
            branch=one_line(branch) if branch else None,
            notes=(*self.notes, *(note for note, holds in notes.items() if holds)),
        )


class ConversationForm(Struct, frozen=True):
    """How one CLI writes its transcripts."""

    read: Callable[[bytes], Said | None]
    """What a line says; None when it can't be read."""
    is_command: Callable[[str], object]
    """Whether a prompt is a command to the CLI itself."""


def read_conversation(transcript: Transcript, form: ConversationForm) -> Conversation:
    """Head and tail, each within its budget."""
    found = Conversation()
    _read_head(transcript, form, found)
    _read_tail(transcript, form, found)
    found.readable = bool(found.first or found.newest or transcript.exhausted)
    return found


def _read_head(transcript: Transcript, form: ConversationForm, found: Conversation) -> None:
    for number, line in enumerate(transcript.forward(HEAD_BUDGET)):
        if number >= _HEAD_LINES or (found.first_prompt and line.offset > _WINDOW):
            return
        said = form.read(line.data)
        if said is None:
            found.damaged = found.damaged or line.ended
        elif said.kind is not Kind.FOREIGN:
            found.first = found.first or said
            if said.kind is Kind.TITLE:
                found.title = one_line(said.text or "") or found.title
            elif said.kind is Kind.PROMPT and found.first_prompt is None:
                text = one_line(said.text or "")
                found.first_prompt = text if text and not form.is_command(text) else None
    if found.first is None and transcript.exhausted:
        found.notes.append(f"the first record is beyond {HEAD_BUDGET >> 20} MiB and was not read")


def _read_tail(transcript: Transcript, form: ConversationForm, found: Conversation) -> None:
    titled = damaged = False
    parents: set[str] = set()
    """Of the messages only: other records may continue from an earlier one too."""
    for line in transcript.backward(TAIL_BUDGET):
        if found.last and not found.wants_prompt and line.offset < transcript.size - _WINDOW:
            break
        said = form.read(line.data)
        if said is None:
            damaged = damaged or line.ended
            continue
        if said.kind is Kind.FOREIGN:
            continue
        found.newest = found.newest or said
        if said.kind is Kind.TITLE and not titled and (title := one_line(said.text or "")):
            found.title, titled = title, True
        if said.kind in _MESSAGES and said.parent:
            found.branched = found.branched or said.parent in parents
            parents.add(said.parent)
        if found.last is None and said.kind in _TURNS:
            found.last, found.turn = said, _TURNS[said.kind]
        if said.kind is Kind.PROMPT and found.wants_prompt:
            found.open_prompt = said
    found.damaged = found.damaged or damaged
    if found.last is None and (transcript.exhausted or damaged):
        found.turn = TurnState.UNREADABLE
        if transcript.exhausted:
            found.notes.append(f"no message within the last {TAIL_BUDGET >> 20} MiB")
