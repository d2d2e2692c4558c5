"""agents/main/wire.jsonl, kimi-code's event log: how the last turn stands, what was asked first and last."""

from __future__ import annotations

from msgspec import Struct

from corral.model.record import TurnState
from corral.providers.kimi_code.json_lines import is_json
from corral.providers.kimi_code.state import seconds
from corral.sidecar.files import Unreadable
from corral.system.foreign_json import ForeignDecoder
from corral.system.text import one_line
from corral.system.transcripts import HEAD_BUDGET, TAIL_BUDGET, Line, Transcript, open_transcript

_PROMPT_MARKER = b'"turn.prompt"'
_MARKERS = (b'"turn.ended"', _PROMPT_MARKER, b'"interaction.request"', b'"interaction.resolved"')
_STEP_MARKER = b'"context.append_loop_event"'


class Wire(Struct, kw_only=True):
    """What the log says."""

    exists: bool = True
    turn: TurnState = TurnState.NONE
    turn_started_at: float | None = None
    unfinished: str | None = None
    waits_for: str | None = None
    first_prompt: str | None = None
    updated_at: float | None = None
    recorded_at: float | None = None
    """When the newest record was written, as it says itself."""
    notes: list[str] = []


class _Event(Struct, rename="camel"):
    type: str
    id: object = None
    turn_id: object = None
    time: object = None
    agent_id: object = None


class _Part(Struct):
    text: str | None = None


class _Prompt(Struct):
    input: str | list[_Part]


class _Display(Struct):
    command: str | None = None


class _Question(Struct):
    question: str = ""


class _Request(Struct, rename="camel"):
    tool_name: str | None = None
    action: str | None = None
    display: _Display | None = None
    questions: list[_Question] = []


class _Interaction(Struct):
    kind: str
    request: _Request


# The kind of an event decides the state and is decoded apart: an odd text must not hide an event.
_EVENT = ForeignDecoder(_Event)
_PROMPT = ForeignDecoder(_Prompt)
_INTERACTION = ForeignDecoder(_Interaction)


def read_wire(path: str) -> Wire:
    """The log at `path`. kimi 2.1 does not resume a session without one (2026-11)."""
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        if transcript.code == "io:ENOENT":
            return Wire(exists=False)
        note = f"wire.jsonl can't be read: {transcript.reason}"
        return Wire(exists=False, turn=TurnState.UNREADABLE, notes=[note])
    with transcript:
        wire = Wire(updated_at=transcript.stat.st_mtime, notes=[])
        wire.first_prompt = _find_first_prompt(transcript)
        _read_tail(transcript, wire)
        return wire


def _find_first_prompt(transcript: Transcript) -> str | None:
    for line in transcript.forward(HEAD_BUDGET):
        if _PROMPT_MARKER in line.data:
            event = _EVENT.decode(line.data)
            if event is not None and event.type == "turn.prompt":
                return _read_prompt(line.data)
    return None


def _read_tail(transcript: Transcript, wire: Wire) -> None:
    """Backwards to the last prompt: its turn is open unless an end of it came after."""
    tail = _Tail()
    for line in transcript.backward(TAIL_BUDGET):
        if wire.recorded_at is None and (event := _EVENT.decode(line.data)) is not None:
            wire.recorded_at = seconds(event.time)
        if not any(marker in line.data for marker in _MARKERS):
            tail.steps |= not tail.ended and _STEP_MARKER in line.data
            if not _looks_whole(line.data):
                tail.note_garbage(line)
            continue
        event = _EVENT.decode(line.data)
        if event is None:
            tail.note_garbage(line)
        elif event.type == "turn.prompt":
            if not tail.is_ended(event):
                tail.open = True
                wire.turn_started_at = seconds(event.time)
                wire.unfinished = _read_prompt(line.data)
            break
        else:
            tail.take(event, line)
    if tail.torn:
        wire.notes.append("the last line of wire.jsonl is torn")
    if tail.garbage:
        # kimi 2.1 cuts the log before such a line when it resumes, and goes on without the rest (2026-11)
        wire.notes.append(f"wire.jsonl: {tail.garbage} lines are not JSON; kimi-code drops all that follows them")
    if transcript.exhausted and not tail.ended:
        tail.open = tail.steps or tail.asks
        if tail.open:
            wire.notes.append(f"the turn began more than {TAIL_BUDGET >> 20} MiB before the end of wire.jsonl")
        else:
            wire.turn = TurnState.UNREADABLE
            wire.notes.append(f"wire.jsonl: no turn in its last {TAIL_BUDGET >> 20} MiB, the rest was not read")
            return
    if tail.open:
        wire.turn = TurnState.WAITING if tail.asks else TurnState.OPEN
        wire.waits_for = tail.waits_for
    elif tail.ended:
        wire.turn = TurnState.ENDED


def _looks_whole(data: bytes) -> bool:
    """Cheap, for each line of a tail: a record begins and ends with a brace. What does not is looked at closely."""
    data = data.removesuffix(b"\r")
    return (data[:1] == b"{" and data[-1:] == b"}") or not data or is_json(data)


class _Tail:
    """What was met of the last turn, reading backwards."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.open = False
        self.steps = False
        """Steps after the last end of a turn: a turn is open even if its beginning is out of reach."""
        self.asks = False
        self.waits_for: str | None = None
        self.garbage = 0
        self.torn = False
        self._resolved: set[object] = set()

    def is_ended(self, prompt: _Event) -> bool:
        # `kimi migrate` 2.1 writes prompts without turnId: any end after it is its end (2026-11)
        return bool(self.ended) if prompt.turn_id is None else str(prompt.turn_id) in self.ended

    def take(self, event: _Event, line: Line) -> None:
        match event.type:
            case "turn.ended":
                self.ended.add(str(event.turn_id))
            case "interaction.resolved" if isinstance(event.id, str):
                self._resolved.add(event.id)
            case "interaction.request" if isinstance(event.id, str):
                if event.id not in self._resolved and not self.ended:
                    self.asks = True
                    self.waits_for = self.waits_for or _read_request(line.data)
            case _:
                pass

    def note_garbage(self, line: Line) -> None:
        if line.ended:
            self.garbage += 1
        else:
            self.torn = True


def _read_prompt(data: bytes) -> str | None:
    prompt = _PROMPT.decode(data)
    if prompt is None:
        return None
    if isinstance(prompt.input, str):
        return one_line(prompt.input)
    return one_line(" ".join(part.text for part in prompt.input if part.text))


def _read_request(data: bytes) -> str | None:
    interaction = _INTERACTION.decode(data)
    if interaction is None:
        return None
    request = interaction.request
    if request.questions:
        return one_line(" / ".join(item.question for item in request.questions))
    detail = (request.display.command if request.display else None) or request.action or ""
    return one_line(f"{interaction.kind}: {request.tool_name or 'a tool'} {detail}")
