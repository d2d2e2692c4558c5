"""The event log of a session ("wire") and its last turn: read from both ends, whatever its events are called.

A provider declares a `TurnLog`: the events that tell of turns, and a `Tail` that takes them from the last one back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from corral.machine.text import one_line
from corral.model.record import TurnState
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.transcripts import HEAD_BUDGET, TAIL_BUDGET, Line, Transcript, open_transcript
from corral.sidecar.files import Unreadable

_LATEST = 1e11  # epoch seconds; milliseconds or nonsense are beyond


class Wire(Struct, kw_only=True):
    """What the log says. Without a log there was no turn."""

    exists: bool = True
    turn: TurnState = TurnState.NONE
    turn_started_at: float | None = None
    unfinished: str | None = None
    waits_for: str | None = None
    first_prompt: str | None = None
    created_at: float | None = None
    updated_at: float | None = None
    recorded_at: float | None = None
    """When the newest record was written, as it says itself."""
    notes: list[str] = []


class Event(Protocol):
    """One event, as far as every one says it."""

    @property
    def kind(self) -> str: ...
    @property
    def at(self) -> float | None:
        """Epoch seconds; None where it has no time."""
        ...


E = TypeVar("E", bound=Event)


class Tail(Generic[E]):
    """What was met of the last turn, reading backwards. Derive, and take the events."""

    def __init__(self) -> None:
        self.ended = False
        """The last turn came to its end."""
        self.open = False
        """A turn was begun and did not end."""
        self.within = False
        """Something was met that only happens within a turn: one is open even if its beginning is out of reach."""
        self.in_tool = False
        self.asks = False
        self.question: str | None = None
        self.answered: set[object] = set()
        """Ids of calls and questions that have their answer."""

    def take(self, event: E, line: Line) -> bool:
        """Whether this event decides: nothing before it is looked at. That of a prompt always does."""
        raise NotImplementedError

    def ask(self, question: str | None) -> None:
        """The turn waits for an answer; the last question is the one shown."""
        self.asks = True
        self.question = self.question or question

    @property
    def turn(self) -> TurnState:
        if self.asks:
            return TurnState.WAITING
        return TurnState.IN_TOOL if self.in_tool else TurnState.OPEN


class TurnLog(Struct, Generic[E], frozen=True, kw_only=True):
    """How a CLI writes its event log."""

    decoder: ForeignDecoder[E]
    prompt: str
    """The kind of event that a turn begins with."""
    kinds: tuple[str, ...]
    """The other kinds that tell of turns. A line that names none is not decoded."""
    step: str | None = None
    """A kind that only happens within a turn, where its name is all that has to be known of it."""
    read_prompt: Callable[[bytes], str | None]
    """What the person asked for, from the line of a prompt."""
    make_tail: Callable[[], Tail[E]]
    is_record: Callable[[bytes], bool]
    """Whether the CLI could read this line; asked only of one that looks odd."""
    damage: str
    """What is said of the number of lines that it can't."""

    def read(self, path: str) -> Wire:
        """The log at `path`, within a budget. One that is missing or can't be read does not exist."""
        transcript = open_transcript(path)
        if isinstance(transcript, Unreadable):
            if transcript.code == "io:ENOENT":
                return Wire(exists=False)
            note = f"wire.jsonl can't be read: {transcript.reason}"
            return Wire(exists=False, turn=TurnState.UNREADABLE, notes=[note])
        with transcript:
            wire = Wire(updated_at=transcript.stat.st_mtime, notes=[])
            self._read_head(transcript, wire)
            self._read_tail(transcript, wire)
            return wire

    def _read_head(self, transcript: Transcript, wire: Wire) -> None:
        """The first time and the first prompt."""
        marker = f'"{self.prompt}"'.encode()
        for line in transcript.forward(HEAD_BUDGET):
            if wire.created_at is not None and marker not in line.data:
                continue
            event = self.decoder.decode(line.data)
            if event is not None:
                wire.created_at = wire.created_at or event.at
                if event.kind == self.prompt:
                    wire.first_prompt = self.read_prompt(line.data)
                    return

    def _read_tail(self, transcript: Transcript, wire: Wire) -> None:
        """Backwards to an event that decides: the beginning of the last turn, or its end."""
        kinds = (*self.kinds, self.prompt)
        markers = tuple(f'"{kind}"'.encode() for kind in kinds)
        step = f'"{self.step}"'.encode() if self.step else None
        tail = self.make_tail()
        damaged = 0
        for line in transcript.backward(TAIL_BUDGET):
            is_marked = any(marker in line.data for marker in markers)
            tail.within = tail.within or (step is not None and not tail.ended and step in line.data)
            event = self.decoder.decode(line.data) if is_marked or wire.recorded_at is None else None
            if event is not None and wire.recorded_at is None:
                wire.recorded_at = event.at
            if event is None and (is_marked or not self._looks_whole(line.data)):
                damaged += line.ended
                if not line.ended:
                    wire.notes.append("the last line of wire.jsonl is torn")
            elif event is not None and event.kind in kinds and tail.take(event, line):
                if event.kind == self.prompt and tail.open:
                    wire.turn_started_at = event.at
                    wire.unfinished = self.read_prompt(line.data)
                break
        if damaged:
            wire.notes.append(f"wire.jsonl: {damaged} {self.damage}")
        self._decide(tail, transcript.exhausted, wire)

    def _looks_whole(self, data: bytes) -> bool:
        """Cheap, for each line of a tail: a record begins and ends with a brace. What does not is looked at closely."""
        data = data.removesuffix(b"\r")
        return (data[:1] == b"{" and data[-1:] == b"}") or not data or self.is_record(data)

    def _decide(self, tail: Tail[E], exhausted: bool, wire: Wire) -> None:
        read = f"{TAIL_BUDGET >> 20} MiB"
        if tail.open or (exhausted and tail.within and not tail.ended):
            wire.turn, wire.waits_for = tail.turn, tail.question if tail.asks else None
            if exhausted:
                wire.notes.append(f"the turn began more than {read} before the end of wire.jsonl")
        elif tail.ended:
            wire.turn = TurnState.ENDED
        elif exhausted:
            wire.turn = TurnState.UNREADABLE
            wire.notes.append(f"wire.jsonl: no turn in its last {read}, the rest was not read")


class TextPart(Struct):
    text: str | None = None


class Question(Struct):
    question: str = ""


def join_parts(parts: str | list[TextPart]) -> str | None:
    """A prompt in one line, its images left out."""
    return one_line(parts if isinstance(parts, str) else " ".join(part.text for part in parts if part.text))


def join_questions(questions: list[Question]) -> str | None:
    return one_line(" / ".join(item.question for item in questions))


def to_seconds(value: object, *, per_second: int = 1) -> float | None:
    """A time of the log in epoch seconds; None if it is not one."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value / per_second if 0 < value / per_second < _LATEST else None
