"""Every kimi-code session on disk: a look at three files each when known, read within a budget when not."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from corral.machine.text import one_line
from corral.model.key import Home, is_valid_id
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped
from corral.providers.kimi_code.processes import NAME
from corral.providers.kit.bucket_sessions import REPEATED, Bucket, BucketReader, BucketRules, list_bucket_sessions
from corral.providers.kit.foreign_json import ForeignDecoder, is_absolute_path, is_javascript_json
from corral.providers.kit.runtime_claims import read_hint
from corral.providers.kit.transcripts import Line
from corral.providers.kit.wires import Question, Tail, TextPart, TurnLog, Wire, join_parts, join_questions, to_seconds
from corral.sidecar.files import Unreadable, read_regular

BUCKETS = BucketRules(
    provider=NAME,
    refuse_bucket=lambda name: (
        None if name.startswith("wd_") and is_valid_id(name) else "its name does not begin with wd_"
    ),
    # The second is what `kimi migrate` makes of a kimi-cli session (2026-11).
    prefixes=("session_", "ses_"),
    odd_name="a directory whose name is not a session id of kimi-code",
    passes_dots=True,  # .index-cache, .index-dirty
)
MAIN_LOG = "agents/main/wire.jsonl"
_FILES = (MAIN_LOG, "state.json", "runtime.json")
"""All that a record rests on."""
_LARGEST = 4 << 20


class _Custom(Struct):
    kimi_cli_session_id: str | None = None


class State(Struct, rename="camel"):
    """What kimi-code says of a session. Times are in milliseconds."""

    id: str
    cwd: str
    title: str | None = None
    archived: bool = False
    forked_from: str | None = None
    created_at: object = None
    updated_at: object = None
    custom: _Custom | None = None

    @property
    def migrated_from(self) -> str | None:
        """The id of the kimi-cli session that this one was made from."""
        return self.custom.kimi_cli_session_id if self.custom else None


_STATE = ForeignDecoder(State)


def read_state(path: str) -> State | str:
    """The state, or in words why there is none."""
    content = read_regular(path, _LARGEST)
    if isinstance(content, Unreadable):
        missing = content.code == "io:ENOENT"
        return "state.json is missing" if missing else f"state.json can't be read: {content.reason}"
    state = _STATE.decode(content.data)
    if state is None:
        return "state.json is not what kimi-code writes"
    return state if is_absolute_path(state.cwd) else "state.json names no absolute directory"


def seconds(milliseconds: object) -> float | None:
    return to_seconds(milliseconds, per_second=1000)


class _Event(Struct, rename="camel"):
    type: str
    id: object = None
    turn_id: object = None
    time: object = None

    @property
    def kind(self) -> str:
        return self.type

    @property
    def at(self) -> float | None:
        return seconds(self.time)


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
_PROMPT = ForeignDecoder(_Prompt)
_INTERACTION = ForeignDecoder(_Interaction)


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


class _Tail(Tail[_Event]):
    def __init__(self) -> None:
        super().__init__()
        self._ends: set[str] = set()
        """Turns that came to their end."""

    def take(self, event: _Event, line: Line) -> bool:
        match event.type:
            case "turn.prompt":
                # `kimi migrate` 2.1 writes prompts without turnId: any end after it is its end (2026-11)
                self.open = not (self.ended if event.turn_id is None else str(event.turn_id) in self._ends)
                return True
            case "turn.ended":
                self.ended = True
                self._ends.add(str(event.turn_id))
            case "interaction.resolved" if isinstance(event.id, str):
                self.answered.add(event.id)
            case "interaction.request" if isinstance(event.id, str):
                if event.id not in self.answered and not self.ended:
                    self.within = True
                    self.ask(_read_request(line.data))
            case _:
                pass
        return False


WIRE = TurnLog(
    decoder=ForeignDecoder(_Event),
    prompt="turn.prompt",
    kinds=("turn.ended", "interaction.request", "interaction.resolved"),
    step="context.append_loop_event",
    read_prompt=_read_prompt,
    make_tail=_Tail,
    is_record=is_javascript_json,
    # kimi 2.1 cuts the log before such a line when it resumes, and goes on without the rest (2026-11)
    damage="lines are not JSON; kimi-code drops all that follows them",
)


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Resting | Skipped]:
    def read_in(bucket: Bucket, repeated: frozenset[str]) -> BucketReader:
        here = repeated.intersection(bucket.sessions)
        return BucketReader(
            outside=sorted(here),
            fingerprint=lambda session_id: (session_id in here,),
            read=lambda session_id: _read_session(home.path, bucket, session_id, session_id in here),
        )

    return list_bucket_sessions(BUCKETS.list(home.path), _FILES, known, read_in)


def _read_session(home: str, bucket: Bucket, session_id: str, is_repeated: bool) -> SessionRecord:
    path = f"{bucket.path}/{session_id}"
    found = read_state(f"{path}/state.json")
    state = found if isinstance(found, State) else None
    wire = WIRE.read(f"{path}/{MAIN_LOG}")
    reason = _find_obstacle(found, wire, session_id)
    return SessionRecord(
        provider=NAME,
        home=home,
        scope=bucket.name,
        session_id=session_id,
        path=path,
        work_dir=state.cwd if state else None,
        # kimi 2.1 gives no title to a session of `kimi -p` (2026-11)
        title=(one_line(state.title) if state and state.title else None) or wire.first_prompt,
        created_at=seconds(state.created_at) if state else None,
        updated_at=(seconds(state.updated_at) if state else None) or wire.updated_at,
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
        return f"{MAIN_LOG} is missing or not a file: kimi-code can't resume without it"
    return None


def _list_notes(state: State | None, wire: Wire, is_repeated: bool) -> Iterator[str]:
    if is_repeated:
        yield REPEATED
    if state is not None and state.migrated_from:
        yield f"migrated from kimi-cli session {one_line(state.migrated_from)}"
    yield from wire.notes
