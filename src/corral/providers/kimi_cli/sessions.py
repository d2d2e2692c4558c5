"""Every kimi-cli session on disk: a look at four files each when known, read within a budget when not."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from zlib import crc32

from msgspec import Struct, structs

from corral.machine.stamps import to_stamp
from corral.machine.text import one_line
from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped, TurnState
from corral.providers.kimi_cli.processes import NAME
from corral.providers.kimi_cli.reporter import bucket_of
from corral.providers.kit.bucket_sessions import REPEATED, Bucket, BucketReader, BucketRules, list_bucket_sessions
from corral.providers.kit.foreign_json import ForeignDecoder, is_absolute_path, is_object
from corral.providers.kit.runtime_claims import read_hint
from corral.providers.kit.transcripts import HEAD_BUDGET, Line, open_transcript
from corral.providers.kit.wires import Question, Tail, TextPart, TurnLog, join_parts, join_questions, to_seconds
from corral.sidecar.files import Unreadable, read_regular

# md5 of the work directory's path; for a directory on another machine (kaos) with its name before it.
_BUCKET = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]*_)?[0-9a-f]{32}\Z")
BUCKETS = BucketRules(
    provider=NAME,
    # kimi 1.51: `--session ../x` makes such a directory (2026-11)
    refuse_bucket=lambda name: None if _BUCKET.match(name) else "its name is not the hash of a directory",
    odd_name="a directory whose name is not a valid session id",
    legacy_suffix=".jsonl",
)


LOCAL = "local"
_LARGEST = 16 << 20


class WorkDir(Struct, frozen=True):
    """One work directory as kimi-cli recorded it: absolute, links not resolved."""

    path: str
    kaos: str = LOCAL
    """Where it is: "local", or the name of another machine."""

    @property
    def bucket(self) -> str:
        # kimi 1.51: not salted, no normalisation beyond what is in the file (2026-11)
        digest = bucket_of(self.path)
        return digest if self.kaos == LOCAL else f"{self.kaos}_{digest}"


class _Document(Struct):
    work_dirs: list[WorkDir] = []


_DOCUMENT = ForeignDecoder(_Document)


class Registry(Struct, frozen=True):
    """All of kimi.json that matters here."""

    by_bucket: dict[str, WorkDir]
    problem: str | None = None
    """Why kimi.json could not be read: kimi-cli refuses to start then. A missing file is fine."""

    def find_local(self, bucket: str) -> str | None:
        """The directory of a bucket, if it is listed and on this machine."""
        found = self.by_bucket.get(bucket)
        return found.path if found is not None and found.kaos == LOCAL else None


def read_registry(home: str) -> Registry:
    """kimi.json as it is now. It is decoded once for as long as the file stays the same."""
    path = f"{home}/kimi.json"
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return Registry({})
    except OSError as error:
        return Registry({}, f"kimi.json can't be read: {error.strerror}")
    return _read_registry(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _read_registry(path: str, *_identity: int) -> Registry:
    content = read_regular(os.path.realpath(path), _LARGEST)
    if isinstance(content, Unreadable):
        return Registry({}, f"kimi.json can't be read: {content.reason}")
    document = _DOCUMENT.decode(content.data)
    if document is None:
        return Registry({}, "kimi.json is not what kimi-cli writes")
    usable = [work_dir for work_dir in document.work_dirs if is_absolute_path(work_dir.path)]
    return Registry({work_dir.bucket: work_dir for work_dir in reversed(usable)})  # of two equal ones the first


class _Payload(Struct):
    id: object = None
    tool_call_id: object = None


class _Message(Struct):
    type: str
    payload: _Payload


class _Event(Struct):
    message: _Message
    timestamp: object = None

    @property
    def kind(self) -> str:
        return self.message.type

    @property
    def at(self) -> float | None:
        return to_seconds(self.timestamp)


class _Text(Struct):
    user_input: str | list[TextPart] = ""
    questions: list[Question] = []


class _TextMessage(Struct):
    payload: _Text


class _TextEvent(Struct):
    message: _TextMessage


_TEXT = ForeignDecoder(_TextEvent)
"""The kind of an event decides the state and is decoded apart: an odd text must not hide an event."""


def _read_prompt(data: bytes) -> str | None:
    event = _TEXT.decode(data)
    return join_parts(event.message.payload.user_input) if event else None


class _Tail(Tail[_Event]):
    def take(self, event: _Event, line: Line) -> bool:
        payload = event.message.payload
        match event.message.type:
            case "TurnEnd":
                self.ended = not self.open
                return True
            case "ToolResult":  # one that was cancelled may come after the turn's end
                self.answered.add(payload.tool_call_id if isinstance(payload.tool_call_id, str) else None)
                return False
            case "ToolCall" if isinstance(payload.id, str) and payload.id not in self.answered:
                # kimi 1.51 does not log that it waits for an approval: it looks like a tool that runs (2026-11)
                self.in_tool = True
            case "QuestionRequest" if isinstance(payload.tool_call_id, str):
                if payload.tool_call_id not in self.answered:
                    asked = _TEXT.decode(line.data)
                    self.ask(join_questions(asked.message.payload.questions) if asked else None)
            case _:
                pass
        self.open = True  # all others only happen within a turn
        return event.message.type == WIRE.prompt


WIRE = TurnLog(
    decoder=ForeignDecoder(_Event),
    prompt="TurnBegin",
    kinds=("TurnEnd", "StepBegin", "ToolCall", "ToolResult", "QuestionRequest"),
    read_prompt=_read_prompt,
    make_tail=_Tail,
    is_record=is_object,
    damage="lines near the end are not JSON",
)


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


class _Place(Struct, frozen=True):
    """A bucket, and what its sessions take from outside their own directories."""

    home: str
    bucket: Bucket
    work_dir: str | None
    note: str | None
    repeated: frozenset[str]
    """The ids that other buckets have too."""


class _History(Struct, frozen=True):
    """What the file that a resume needs was found to be."""

    path: str
    durable: bool
    reason: str | None = None
    note: str | None = None


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Resting | Skipped]:
    """Sessions of every bucket, whether kimi-cli still lists the bucket's directory or not."""
    registry = read_registry(home.path)
    if registry.problem is not None:
        yield Skipped(provider=NAME, path=f"{home.path}/kimi.json", reason=registry.problem)

    def read_in(bucket: Bucket, repeated: frozenset[str]) -> BucketReader:
        note = _find_note(bucket, registry)
        return _read_in(_Place(home.path, bucket, registry.find_local(bucket.name), note, repeated))

    yield from list_bucket_sessions(BUCKETS.list(home.path), _FILES, known, read_in)


def _find_note(bucket: Bucket, registry: Registry) -> str | None:
    found = registry.by_bucket.get(bucket.name)
    if found is None:
        return registry.problem or "kimi.json no longer lists its directory, so a resume would lose its history"
    return f"its directory {found.path} is on another machine ({found.kaos})" if found.kaos != LOCAL else None


def _read_in(place: _Place) -> BucketReader:
    bucket = place.bucket
    seal = crc32(f"{place.work_dir}\n{place.note}".encode(errors="replace"))
    here = place.repeated.intersection(bucket.sessions)
    # An older single file holds the history of its session until that is opened.
    beside = {one: _stamp(f"{bucket.path}/{one}.jsonl") for one in sorted(bucket.legacy.intersection(bucket.sessions))}
    return BucketReader(
        outside=(seal, sorted(here), beside),
        fingerprint=lambda one: (*beside.get(one, ()), seal, one in here, one in bucket.legacy),
        read=lambda one: _read_session(place, one),
        also=(_read_single(place, one) for one in sorted(bucket.legacy.difference(bucket.sessions))),
    )


def _stamp(path: str) -> tuple[int, ...]:
    try:
        return to_stamp(os.lstat(path))
    except OSError:
        return ()


def _read_session(place: _Place, session_id: str) -> SessionRecord:
    path = f"{place.bucket.path}/{session_id}"
    inside, notes = f"{path}/context.jsonl", list[str]()
    history = _read_history(inside)
    if session_id in place.bucket.legacy:
        if os.path.lexists(inside):
            notes.append("an older single file of the same id is beside it, and is not used")
        else:
            # kimi 1.51 moves the old file into the directory on opening (read in its source, 2026-11)
            history = _read_history(f"{path}.jsonl")
            notes.append("its history is still in the older single file")
    wire = WIRE.read(f"{path}/wire.jsonl")
    state = _read_state(f"{path}/state.json", notes)
    record = _make_record(place, session_id, path, history, *notes, history.note, *wire.notes)
    if not history.durable and wire.first_prompt is not None and os.path.lexists(history.path):
        reason = "its history is gone: the event log has prompts, context.jsonl has no message"
        record = structs.replace(record, not_durable_reason=reason)
    return structs.replace(
        record,
        title=(one_line(state.custom_title) if state.custom_title else None) or wire.first_prompt,
        # kimi 1.51 writes context.jsonl at launch and the event log with the first prompt (2026-11)
        created_at=wire.created_at or record.updated_at,
        updated_at=wire.updated_at or record.updated_at,
        turn=wire.turn,
        turn_started_at=wire.turn_started_at,
        unfinished=wire.unfinished,
        waits_for=wire.waits_for,
        recorded_at=wire.recorded_at,
        archived=state.archived,
        sidecar=read_hint(f"{path}/runtime.json"),
    )


def _read_single(place: _Place, session_id: str) -> SessionRecord | Skipped:
    """A session of an older version, which is its history and nothing else."""
    path = f"{place.bucket.path}/{session_id}.jsonl"
    history = _read_history(path)
    if history.reason and history.reason.startswith("unreadable"):
        return Skipped(provider=NAME, path=path, reason=history.reason)
    note = "a single file, as older versions wrote: it has no event log, so the last turn is not known"
    return _make_record(place, session_id, path, history, note)


def _make_record(place: _Place, session_id: str, path: str, history: _History, *notes: str | None) -> SessionRecord:
    """All that is known without an event log."""
    # kimi 1.51: `--session ID` of another directory makes an empty session of the same id here (2026-11)
    repeated = REPEATED if session_id in place.repeated else None
    return SessionRecord(
        provider=NAME,
        home=place.home,
        scope=place.bucket.name,
        session_id=session_id,
        path=path,
        work_dir=place.work_dir,
        title=None,
        created_at=None,
        updated_at=_find_mtime(history.path),
        durable=history.durable,
        not_durable_reason=history.reason,
        turn=TurnState.NONE,
        notes=tuple(note for note in (place.note, repeated, *notes) if note),
    )


def _read_history(path: str) -> _History:
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        if transcript.code == "io:ENOENT":
            return _History(path, False, "context.jsonl is missing: a resume would start with an empty history")
        return _History(path, False, f"unreadable history: {transcript.reason}")
    with transcript:
        for line in transcript.forward(HEAD_BUDGET):
            message = _MESSAGE.decode(line.data)
            # Roles with an underscore are its own: every session has a system prompt from its launch on.
            if message is not None and message.role and not message.role.startswith("_"):
                return _History(path, True)
        if transcript.exhausted:
            note = f"no message in the first {HEAD_BUDGET >> 20} MiB of context.jsonl, the rest was not read"
            return _History(path, True, note=note)
    return _History(path, False, "never prompted")


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
    return state or _State()


def _find_mtime(path: str) -> float | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime if stat.S_ISREG(status.st_mode) else None
