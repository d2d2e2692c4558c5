"""Every kimi-cli session on disk: a look at four files each when known, read within a budget when not."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from zlib import crc32

from msgspec import Struct

from corral.machine.stamps import to_stamp
from corral.machine.text import one_line
from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped, TurnState
from corral.providers.kimi_cli.processes import NAME
from corral.providers.kimi_cli.reporter import bucket_of
from corral.providers.kit.bucket_sessions import REPEATED, Bucket, BucketReader, BucketRules, list_bucket_sessions
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.runtime_claims import read_hint
from corral.providers.kit.transcripts import HEAD_BUDGET, TAIL_BUDGET, Line, Transcript, open_transcript
from corral.providers.kit.wires import Question, TextPart, Wire, join_parts, join_questions, to_seconds
from corral.sidecar.files import Unreadable, read_regular

# md5 of the work directory's path; for a directory on another machine (kaos) with its name before it.
_BUCKET = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]*_)?[0-9a-f]{32}\Z")


def _refuse_bucket(name: str) -> str | None:
    # kimi 1.51: `--session ../x` makes such a directory (2026-11)
    return None if _BUCKET.match(name) else "its name is not the hash of a directory"


_RULES = BucketRules(
    provider=NAME,
    refuse_bucket=_refuse_bucket,
    odd_name="a directory whose name is not a valid session id",
    legacy_suffix=".jsonl",
)
list_buckets = _RULES.list_buckets


LOCAL = "local"

_LARGEST = 16 << 20


class WorkDir(Struct, frozen=True):
    """One work directory as kimi-cli recorded it: absolute, links not resolved."""

    path: str
    kaos: str
    """Where it is: "local", or the name of another machine."""

    @property
    def bucket(self) -> str:
        # kimi 1.51: not salted, no normalisation beyond what is in the file (2026-11)
        digest = bucket_of(self.path)
        return digest if self.kaos == LOCAL else f"{self.kaos}_{digest}"


class Registry(Struct, frozen=True):
    """All of kimi.json that matters here."""

    by_bucket: dict[str, WorkDir]
    problem: str | None = None
    """Why kimi.json could not be read: kimi-cli refuses to start then. A missing file is no problem."""


class _Entry(Struct):
    path: str
    kaos: str = LOCAL


class _Document(Struct):
    work_dirs: list[_Entry] = []


_DOCUMENT = ForeignDecoder(_Document)


def read_registry(home: str) -> Registry:
    """kimi.json as it is now. It is decoded once for as long as the file stays the same."""
    path = f"{home}/kimi.json"
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return Registry({})
    except OSError as error:
        return Registry({}, f"kimi.json can't be read: {error.strerror}")
    return _read(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: str, *_identity: int) -> Registry:
    content = read_regular(os.path.realpath(path), _LARGEST)
    if isinstance(content, Unreadable):
        return Registry({}, f"kimi.json can't be read: {content.reason}")
    document = _DOCUMENT.decode(content.data)
    if document is None:
        return Registry({}, "kimi.json is not what kimi-cli writes")
    found: dict[str, WorkDir] = {}
    for entry in document.work_dirs:
        work_dir = WorkDir(entry.path, entry.kaos)
        if _is_usable(entry.path):
            found.setdefault(work_dir.bucket, work_dir)
    return Registry(found)


def _is_usable(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and not any("\ud800" <= c <= "\udfff" for c in path)


_MARKERS = (
    b'"TurnEnd"',
    b'"TurnBegin"',
    b'"StepBegin"',
    b'"ToolCall"',
    b'"ToolResult"',
    b'"QuestionRequest"',
)


class _Payload(Struct):
    id: object = None
    tool_call_id: object = None


class _Message(Struct):
    type: str
    payload: _Payload


class _Event(Struct):
    message: _Message
    timestamp: object = None


class _Prompt(Struct):
    user_input: str | list[TextPart]


class _PromptMessage(Struct):
    payload: _Prompt


class _PromptEvent(Struct):
    message: _PromptMessage


class _Questions(Struct):
    questions: list[Question] = []


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
            wire.created_at = to_seconds(event.timestamp)
        if event.message.type == "TurnBegin":
            wire.first_prompt = _read_prompt(line.data)
            return


def _read_tail(transcript: Transcript, wire: Wire) -> None:
    """Backwards to the beginning or end of a turn, whichever comes first."""
    tail = _Tail()
    for line in transcript.backward(TAIL_BUDGET):
        if wire.recorded_at is None and (event := _EVENT.decode(line.data)) is not None:
            wire.recorded_at = to_seconds(event.timestamp)
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
            wire.turn_started_at = to_seconds(event.timestamp)
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
    return join_parts(event.message.payload.user_input) if event is not None else None


def _read_question(data: bytes) -> str | None:
    event = _QUESTION.decode(data)
    return join_questions(event.message.payload.questions) if event is not None else None


_LARGEST_STATE = 1 << 20
_FILES = ("wire.jsonl", "context.jsonl", "state.json", "runtime.json")
"""All that a record rests on, beside kimi.json and an older single file."""


class _State(Struct):
    custom_title: str | None = None
    archived: bool = False


class _ContextMessage(Struct):
    role: str


_STATE = ForeignDecoder(_State)
_MESSAGE = ForeignDecoder(_ContextMessage)


class _Setting(Struct, frozen=True):
    """What a session takes from outside its own directory."""

    home: str
    bucket: str
    work_dir: str | None
    note: str | None
    seal: int


class _Context(Struct, frozen=True):
    """What context.jsonl, the history that a resume needs, was found to be."""

    durable: bool
    reason: str | None = None
    note: str | None = None


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Resting | Skipped]:
    """Sessions of every bucket, whether kimi-cli still lists the bucket's directory or not."""
    registry = read_registry(home.path)
    if registry.problem is not None:
        yield Skipped(provider=NAME, path=f"{home.path}/kimi.json", reason=registry.problem)
    yield from list_bucket_sessions(
        list_buckets(home.path),
        _FILES,
        known,
        # kimi 1.51: `--session ID` of another directory makes an empty session of the same id here (2026-11)
        lambda bucket, repeated: _read_in(bucket, _find_setting(home.path, bucket.name, registry), repeated),
    )


def _find_setting(home: str, bucket: str, registry: Registry) -> _Setting:
    found = registry.by_bucket.get(bucket)
    work_dir = found.path if found is not None and found.kaos == LOCAL else None
    if found is None:
        note = registry.problem or "kimi.json no longer lists its directory, so a resume would lose its history"
    elif found.kaos != LOCAL:
        note = f"its directory {found.path} is on another machine ({found.kaos})"
    else:
        note = None
    return _Setting(home, bucket, work_dir, note, crc32(f"{work_dir}\n{note}".encode(errors="replace")))


def _read_in(bucket: Bucket, setting: _Setting, repeated: frozenset[str]) -> BucketReader:
    here = repeated.intersection(bucket.sessions)
    beside = {one: _stamp(f"{bucket.path}/{one}.jsonl") for one in sorted(bucket.legacy.intersection(bucket.sessions))}

    def fingerprint(session_id: str) -> tuple[int, ...]:
        return *beside.get(session_id, ()), setting.seal, session_id in here, session_id in bucket.legacy

    def read(session_id: str) -> SessionRecord:
        path = f"{bucket.path}/{session_id}"
        return _read_session(path, session_id, setting, session_id in here, session_id in bucket.legacy)

    return BucketReader(
        outside=(setting.seal, sorted(here), beside),
        fingerprint=fingerprint,
        read=read,
        also=(
            _read_legacy(bucket, session_id, setting, session_id in repeated)
            for session_id in sorted(bucket.legacy.difference(bucket.sessions))
        ),
    )


def _stamp(path: str) -> tuple[int, ...]:
    """Of the older single file of a session, which holds its history until it is opened."""
    try:
        return to_stamp(os.lstat(path))
    except OSError:
        return ()


def _read_session(
    path: str,
    session_id: str,
    setting: _Setting,
    is_repeated: bool,
    is_legacy: bool,
) -> SessionRecord:
    context_path = f"{path}/context.jsonl"
    notes = _outer_notes(setting, is_repeated)
    if is_legacy and not os.path.lexists(context_path):
        # kimi 1.51 moves the old file into the directory on opening (read in its source, 2026-11)
        context_path = f"{path}.jsonl"
        notes.append("its history is still in the older single file")
    elif is_legacy:
        notes.append("an older single file of the same id is beside it, and is not used")
    context = _read_context(context_path)
    wire = read_wire(f"{path}/wire.jsonl")
    state = _read_state(f"{path}/state.json", notes)
    if context.note:
        notes.append(context.note)
    notes += wire.notes
    reason = context.reason
    if not context.durable and wire.first_prompt is not None and os.path.lexists(context_path):
        reason = "its history is gone: the event log has prompts, context.jsonl has no message"
    return SessionRecord(
        provider=NAME,
        home=setting.home,
        scope=setting.bucket,
        session_id=session_id,
        path=path,
        work_dir=setting.work_dir,
        title=_find_title(state, wire),
        # kimi 1.51 writes context.jsonl at launch and the event log with the first prompt (2026-11)
        created_at=wire.created_at or _find_mtime(context_path),
        updated_at=wire.updated_at or _find_mtime(context_path),
        durable=context.durable,
        not_durable_reason=reason,
        turn=wire.turn,
        turn_started_at=wire.turn_started_at,
        unfinished=wire.unfinished,
        waits_for=wire.waits_for,
        recorded_at=wire.recorded_at,
        archived=state.archived,
        sidecar=read_hint(f"{path}/runtime.json"),
        notes=tuple(notes),
    )


def _read_legacy(bucket: Bucket, session_id: str, setting: _Setting, is_repeated: bool) -> SessionRecord | Skipped:
    path = f"{bucket.path}/{session_id}.jsonl"
    context = _read_context(path)
    if not context.durable and context.reason and context.reason.startswith("unreadable"):
        return Skipped(provider=NAME, path=path, reason=context.reason)
    notes = _outer_notes(setting, is_repeated)
    notes.append("a single file, as older versions wrote: it has no event log, so the last turn is not known")
    return SessionRecord(
        provider=NAME,
        home=setting.home,
        scope=setting.bucket,
        session_id=session_id,
        path=path,
        work_dir=setting.work_dir,
        title=None,
        created_at=None,
        updated_at=_find_mtime(path),
        durable=context.durable,
        not_durable_reason=context.reason,
        turn=TurnState.NONE,
        notes=tuple(notes),
    )


def _outer_notes(setting: _Setting, is_repeated: bool) -> list[str]:
    notes = [setting.note] if setting.note else []
    if is_repeated:
        notes.append(REPEATED)
    return notes


def _read_context(path: str) -> _Context:
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        if transcript.code == "io:ENOENT":
            return _Context(False, "context.jsonl is missing: a resume would start with an empty history")
        return _Context(False, f"unreadable history: {transcript.reason}")
    with transcript:
        for line in transcript.forward(HEAD_BUDGET):
            message = _MESSAGE.decode(line.data)
            # Roles with an underscore are its own: every session has a system prompt from its launch on.
            if message is not None and message.role and not message.role.startswith("_"):
                return _Context(True)
        if transcript.exhausted:
            note = f"no message in the first {HEAD_BUDGET >> 20} MiB of context.jsonl, the rest was not read"
            return _Context(True, note=note)
    return _Context(False, "never prompted")


def _read_state(path: str, notes: list[str]) -> _State:
    content = read_regular(path, _LARGEST_STATE)
    if isinstance(content, Unreadable):
        if content.code != "io:ENOENT":
            notes.append(f"state.json can't be read: {content.reason}")
        return _State()
    state = _STATE.decode(content.data)
    if state is None:
        # kimi 1.51 takes defaults and rewrites the file (2026-11)
        notes.append("state.json is not what kimi-cli writes: its title and archive flag are lost")
        return _State()
    return state


def _find_title(state: _State, wire: Wire) -> str | None:
    title = one_line(state.custom_title) if state.custom_title else None
    return title or wire.first_prompt


def _find_mtime(path: str) -> float | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime if stat.S_ISREG(status.st_mode) else None
