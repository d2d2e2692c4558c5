"""wire.jsonl, kimi-cli's event log: how the last turn stands, what was asked first and last."""

from __future__ import annotations

from msgspec import Struct

from corral.model.record import TurnState
from corral.sidecar.files import Unreadable
from corral.system.foreign_json import ForeignDecoder
from corral.system.text import one_line
from corral.system.transcripts import HEAD_BUDGET, TAIL_BUDGET, Line, Transcript, open_transcript

_MARKERS = (
    b'"TurnEnd"',
    b'"TurnBegin"',
    b'"StepBegin"',
    b'"ToolCall"',
    b'"ToolResult"',
    b'"QuestionRequest"',
)
_LATEST = 1e11  # epoch seconds; milliseconds or nonsense lie beyond


class Wire(Struct, kw_only=True):
    """What the log says. Without a log there was no turn."""

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


class _Payload(Struct):
    id: object = None
    tool_call_id: object = None


class _Message(Struct):
    type: str
    payload: _Payload


class _Event(Struct):
    message: _Message
    timestamp: object = None


class _Part(Struct):
    text: str | None = None


class _Prompt(Struct):
    user_input: str | list[_Part]


class _PromptMessage(Struct):
    payload: _Prompt


class _PromptEvent(Struct):
    message: _PromptMessage


class _Question(Struct):
    question: str = ""


class _Questions(Struct):
    questions: list[_Question] = []


class _QuestionMessage(Struct):
    payload: _Questions


class _QuestionEvent(Struct):
    message: _QuestionMessage


# The kind of an event decides the state and is decoded apart: an odd text must not hide an event.
_EVENT = ForeignDecoder(_Event)
_PROMPT = ForeignDecoder(_PromptEvent)
_QUESTION = ForeignDecoder(_QuestionEvent)


def read_wire(path: str) -> Wire:
    """The log at `path`; a missing one is an empty one. kimi 1.51 itself tolerates that (2026-11)."""
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        if transcript.code == "io:ENOENT":
            return Wire()
        return Wire(turn=TurnState.UNREADABLE, notes=[f"wire.jsonl can't be read: {transcript.reason}"])
    with transcript:
        wire = Wire(updated_at=transcript.stat.st_mtime, notes=[])
        _read_head(transcript, wire)
        _read_tail(transcript, wire)
        return wire


def _read_head(transcript: Transcript, wire: Wire) -> None:
    for line in transcript.forward(HEAD_BUDGET):
        event = _EVENT.decode(line.data)
        if event is None:
            continue
        if wire.created_at is None:
            wire.created_at = _seconds(event.timestamp)
        if event.message.type == "TurnBegin":
            wire.first_prompt = _read_prompt(line.data)
            return


def _read_tail(transcript: Transcript, wire: Wire) -> None:
    """Backwards to the beginning or end of a turn, whichever comes first."""
    tail = _Tail()
    for line in transcript.backward(TAIL_BUDGET):
        if wire.recorded_at is None and (event := _EVENT.decode(line.data)) is not None:
            wire.recorded_at = _seconds(event.timestamp)
        if not any(marker in line.data for marker in _MARKERS):
            continue
        event = _EVENT.decode(line.data)
        if event is None:
            if line.ended:
                tail.garbage += 1
            else:
                wire.notes.append("the last line of wire.jsonl is torn")
            continue
        if event.message.type == "TurnBegin":
            tail.saw_turn = True
            wire.turn_started_at = _seconds(event.timestamp)
            wire.unfinished = _read_prompt(line.data)
            break
        if event.message.type == "TurnEnd":
            if not tail.saw_turn:
                wire.turn = TurnState.ENDED
            break
        tail.take(event, line)
    if tail.garbage:
        wire.notes.append(f"wire.jsonl: {tail.garbage} lines near the end are not JSON")
    if tail.saw_turn:
        wire.turn = tail.decide()
        wire.waits_for = tail.question if wire.turn is TurnState.WAITING else None
        if transcript.exhausted:
            wire.notes.append(f"the turn began more than {TAIL_BUDGET >> 20} MiB before the end of wire.jsonl")
    elif transcript.exhausted:
        wire.turn = TurnState.UNREADABLE
        wire.notes.append(f"wire.jsonl: no turn in its last {TAIL_BUDGET >> 20} MiB, the rest was not read")


class _Tail:
    """What was met of the last turn, reading backwards."""

    def __init__(self) -> None:
        self.saw_turn = False
        """Something was met that only happens within a turn."""
        self.garbage = 0
        self.question: str | None = None
        self._answered: set[object] = set()
        self._asks = False
        self._in_tool = False

    def take(self, event: _Event, line: Line) -> None:
        payload = event.message.payload
        match event.message.type:
            case "ToolResult":  # one that was cancelled may come after the turn's end
                if isinstance(payload.tool_call_id, str):
                    self._answered.add(payload.tool_call_id)
            case "ToolCall":
                self.saw_turn = True
                self._in_tool |= isinstance(payload.id, str) and payload.id not in self._answered
            case "QuestionRequest":
                self.saw_turn = True
                if isinstance(payload.tool_call_id, str) and payload.tool_call_id not in self._answered:
                    self._asks = True
                    self.question = self.question or _read_question(line.data)
            case "StepBegin":
                self.saw_turn = True
            case _:
                pass

    def decide(self) -> TurnState:
        if self._asks:
            return TurnState.WAITING
        # kimi 1.51 does not log that it waits for an approval: it looks like a tool that runs (2026-11)
        return TurnState.IN_TOOL if self._in_tool else TurnState.OPEN


def _read_prompt(data: bytes) -> str | None:
    event = _PROMPT.decode(data)
    if event is None:
        return None
    asked = event.message.payload.user_input
    if isinstance(asked, str):
        return one_line(asked)
    return one_line(" ".join(part.text for part in asked if part.text))


def _read_question(data: bytes) -> str | None:
    event = _QUESTION.decode(data)
    if event is None:
        return None
    return one_line(" / ".join(item.question for item in event.message.payload.questions))


def _seconds(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < _LATEST else None
