"""The event log of a session ("wire"): its last turn, read from both ends, and what a resume would drop of it.

A provider declares a `TurnLog`: the events that tell of turns, and a `Tail` that takes them from the last one back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from corral.machine.text import one_line
from corral.model.key import SessionKey
from corral.model.record import SessionRecord, SidecarHint, TurnState
from corral.model.restore import Loss
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.transcripts import HEAD_BUDGET, TAIL_BUDGET, Transcript, open_transcript
from corral.sidecar.files import Unreadable

_BOM = b"\xef\xbb\xbf"
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

    def to_record(
        self,
        key: SessionKey,
        path: str,
        *,
        work_dir: str | None,
        title: str | None,
        created_at: float | None,
        updated_at: float | None,
        why_not: str | None,
        archived: bool = False,
        sidecar: SidecarHint | None = None,
        forked_from: str | None = None,
        branch: str | None = None,
        notes: tuple[str | None, ...] = (),
    ) -> SessionRecord:
        """With what is said elsewhere; `why_not`: why it can't be resumed. Without a title it has its first prompt."""
        return SessionRecord(
            provider=key.provider,
            home=key.home,
            scope=key.scope,
            session_id=key.session_id,
            path=path,
            work_dir=work_dir,
            title=(one_line(title) if title else None) or self.first_prompt,
            created_at=created_at,
            updated_at=updated_at,
            durable=why_not is None,
            not_durable_reason=why_not,
            turn=self.turn,
            turn_started_at=self.turn_started_at,
            unfinished=self.unfinished,
            waits_for=self.waits_for,
            recorded_at=self.recorded_at,
            archived=archived,
            sidecar=sidecar,
            forked_from=one_line(forked_from) if forked_from else None,
            branch=one_line(branch) if branch else None,
            notes=(*(note for note in notes if note), *self.notes),
        )


class Event(Protocol):
    """One event, as far as every one says it."""

    @property
    def kind(self) -> str: ...
    @property
    def at(self) -> float | None:
        """Epoch seconds; None where it has no time."""
        ...

    @property
    def prompt(self) -> object:
        """What the person asked for, as it is: an odd text must not hide an event."""
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

    def take(self, event: E) -> bool:
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

    def find_loss(self, path: str) -> Loss | None:
        """What a CLI drops for good that stops at the first line it can't read: the readable ones behind it, and among
        them the prompts; None if there are none.

        Empty lines count as readable, and so does a last line without its end. Reads the log whole.
        """
        transcript = open_transcript(path)
        if isinstance(transcript, Unreadable):
            return None
        mark = f'"{self.prompt}"'.encode()
        damaged: int | None = None
        lines = prompts = 0
        with transcript:
            for line in transcript.forward(transcript.size):
                data = (line.data.removeprefix(_BOM) if line.offset == 0 else line.data).removesuffix(b"\r")
                if not data:
                    continue
                if damaged is None:
                    damaged = line.offset if line.ended and not self.is_record(data) else None
                elif self.is_record(data):
                    lines += 1
                    prompts += mark in data
            if damaged is None or not lines:
                return None
            return Loss(path=path, line=transcript.count_lines(damaged) + 1, lines=lines, prompts=prompts)

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
                    wire.first_prompt = join_parts(event.prompt)
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
            elif event is not None and event.kind in kinds and tail.take(event):
                if event.kind == self.prompt and tail.open:
                    wire.turn_started_at = event.at
                    wire.unfinished = join_parts(event.prompt)
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


class _Part(Struct):
    text: str | None = None


class _Question(Struct):
    question: str = ""


_PARTS = ForeignDecoder(list[_Part])
_QUESTIONS = ForeignDecoder(list[_Question])


def join_parts(value: object) -> str | None:
    """A prompt in one line, its images left out."""
    parts = () if isinstance(value, str) else _PARTS.convert(value) or ()
    return one_line(value if isinstance(value, str) else " ".join(part.text for part in parts if part.text))


def join_questions(value: object) -> str | None:
    return one_line(" / ".join(item.question for item in _QUESTIONS.convert(value) or ()))


def to_seconds(value: object, *, per_second: int = 1) -> float | None:
    """A time of the log in epoch seconds; None if it is not one."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value / per_second if 0 < value / per_second < _LATEST else None
