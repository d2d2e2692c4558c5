"""Every kimi-code session on disk: a look at three files each when known, read within a budget when not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from corral.machine.text import one_line
from corral.model.key import Home, is_valid_id
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped, TurnState
from corral.providers.kimi_code.processes import NAME
from corral.providers.kit.bucket_sessions import REPEATED, Bucket, BucketReader, BucketRules, list_bucket_sessions
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.runtime_claims import read_hint
from corral.providers.kit.transcripts import HEAD_BUDGET, TAIL_BUDGET, Line, Transcript, open_transcript
from corral.providers.kit.wires import Question, TextPart, Wire, join_parts, join_questions, to_seconds
from corral.sidecar.files import Unreadable, read_regular


def _refuse_bucket(name: str) -> str | None:
    return None if name.startswith("wd_") and is_valid_id(name) else "its name does not begin with wd_"


_RULES = BucketRules(
    provider=NAME,
    refuse_bucket=_refuse_bucket,
    # The second is what `kimi migrate` makes of a kimi-cli session (2026-11).
    prefixes=("session_", "ses_"),
    odd_name="a directory whose name is not a session id of kimi-code",
    passes_dots=True,  # .index-cache, .index-dirty
)
list_buckets = _RULES.list_buckets


_LARGEST = 4 << 20


class _Custom(Struct):
    kimi_cli_session_id: str | None = None


class State(Struct, rename="camel"):
    """What kimi-code says of a session. Times are in milliseconds; the properties give seconds."""

    id: str
    cwd: str
    title: str | None = None
    last_prompt: str | None = None
    archived: bool = False
    forked_from: str | None = None
    created_at: object = None
    updated_at: object = None
    custom: _Custom | None = None

    @property
    def created_seconds(self) -> float | None:
        return seconds(self.created_at)

    @property
    def updated_seconds(self) -> float | None:
        return seconds(self.updated_at)

    @property
    def migrated_from(self) -> str | None:
        """The id of the kimi-cli session that this one was made from."""
        return self.custom.kimi_cli_session_id if self.custom else None


_STATE = ForeignDecoder(State)


def read_state(path: str) -> State | str:
    """The state, or why it is none, in words."""
    content = read_regular(path, _LARGEST)
    if isinstance(content, Unreadable):
        missing = content.code == "io:ENOENT"
        return "state.json is missing" if missing else f"state.json can't be read: {content.reason}"
    state = _STATE.decode(content.data)
    if state is None:
        return "state.json is not what kimi-code writes"
    if not state.cwd.startswith("/") or "\0" in state.cwd or not _is_unicode(state.cwd):
        return "state.json names no absolute directory"
    return state


def seconds(milliseconds: object) -> float | None:
    return to_seconds(milliseconds, per_second=1000)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def is_json(data: bytes) -> bool:
    """Whether JavaScript's JSON.parse takes this line, after a decoding that replaces bytes which are no UTF-8."""
    try:
        msgspec.json.decode(data)
        return True
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # it is stricter than JavaScript in some ways; most lines need no second look
    try:
        json.loads(data.decode("utf-8", "replace"), parse_constant=_refuse, parse_int=float)
    except RecursionError:
        return True  # JavaScript reads any depth
    except ValueError:
        return False
    return True


def _refuse(constant: str) -> float:
    raise ValueError(constant)


_PROMPT_MARKER = b'"turn.prompt"'
_MARKERS = (b'"turn.ended"', _PROMPT_MARKER, b'"interaction.request"', b'"interaction.resolved"')
_STEP_MARKER = b'"context.append_loop_event"'


class _Event(Struct, rename="camel"):
    type: str
    id: object = None
    turn_id: object = None
    time: object = None
    agent_id: object = None


class _Prompt(Struct):
    input: str | list[TextPart]


class _Display(Struct):
    command: str | None = None


class _Request(Struct, rename="camel"):
    tool_name: str | None = None
    action: str | None = None
    display: _Display | None = None
    questions: list[Question] = []


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
    return join_parts(prompt.input) if prompt is not None else None


def _read_request(data: bytes) -> str | None:
    interaction = _INTERACTION.decode(data)
    if interaction is None:
        return None
    request = interaction.request
    if request.questions:
        return join_questions(request.questions)
    detail = (request.display.command if request.display else None) or request.action or ""
    return one_line(f"{interaction.kind}: {request.tool_name or 'a tool'} {detail}")


WIRE = "agents/main/wire.jsonl"
_FILES = (WIRE, "state.json", "runtime.json")
"""All that a record rests on."""


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Resting | Skipped]:
    def read_in(bucket: Bucket, repeated: frozenset[str]) -> BucketReader:
        here = repeated.intersection(bucket.sessions)
        return BucketReader(
            outside=sorted(here),
            fingerprint=lambda session_id: (session_id in here,),
            read=lambda session_id: _read_session(home.path, bucket, session_id, session_id in here),
        )

    return list_bucket_sessions(list_buckets(home.path), _FILES, known, read_in)


def _read_session(home: str, bucket: Bucket, session_id: str, is_repeated: bool) -> SessionRecord:
    path = f"{bucket.path}/{session_id}"
    found = read_state(f"{path}/state.json")
    state = found if isinstance(found, State) else None
    wire = read_wire(f"{path}/{WIRE}")
    reason = _find_obstacle(found, wire, session_id)
    return SessionRecord(
        provider=NAME,
        home=home,
        scope=bucket.name,
        session_id=session_id,
        path=path,
        work_dir=state.cwd if state else None,
        title=_find_title(state, wire),
        created_at=state.created_seconds if state else None,
        updated_at=(state.updated_seconds if state else None) or wire.updated_at,
        durable=reason is None,
        not_durable_reason=reason,
        turn=wire.turn,
        turn_started_at=wire.turn_started_at,
        unfinished=wire.unfinished,
        waits_for=wire.waits_for,
        recorded_at=wire.recorded_at,
        archived=state.archived if state else False,
        sidecar=read_hint(f"{path}/runtime.json"),
        forked_from=one_line(state.forked_from) if state and state.forked_from else None,
        notes=tuple(_list_notes(state, wire, is_repeated)),
    )


def _find_obstacle(state: State | str, wire: Wire, session_id: str) -> str | None:
    """Why kimi-code could not resume it: it needs a readable state.json and the main agent's log."""
    if isinstance(state, str):
        return f"{state}: kimi-code does not find such a session"
    if state.id != session_id:
        return "state.json names another session"
    if not wire.exists:
        return f"{WIRE} is missing or no file: kimi-code can't resume without it"
    return None


def _list_notes(state: State | None, wire: Wire, is_repeated: bool) -> Iterator[str]:
    if is_repeated:
        yield REPEATED
    if state is not None and state.migrated_from:
        yield f"migrated from kimi-cli session {one_line(state.migrated_from)}"
    yield from wire.notes


def _find_title(state: State | None, wire: Wire) -> str | None:
    # kimi 2.1 gives no title to a session of `kimi -p` (2026-11)
    title = one_line(state.title) if state and state.title else None
    return title or wire.first_prompt
