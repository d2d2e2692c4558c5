"""Every kimi-code session on disk: a look at three files each when known, read within a budget when not."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from corral.machine.text import one_line
from corral.model.key import Home, SessionKey, is_valid_id
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped
from corral.providers.kimi_code.processes import NAME
from corral.providers.kit.bucket_sessions import Bucket, BucketReader, BucketRules, list_bucket_sessions
from corral.providers.kit.foreign_json import ForeignDecoder, is_absolute_path, is_javascript_json
from corral.providers.kit.runtime_claims import read_hint
from corral.providers.kit.wires import Tail, TurnLog, Wire, join_questions, to_seconds
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
    """The session that this one was made from."""


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


class _Event(Struct):
    kind: str = field(name="type")
    id: object = None
    turn_id: object = field(name="turnId", default=None)
    time: object = None
    prompt: object = field(name="input", default=None)
    asks: object = field(name="kind", default=None)
    request: object = None

    @property
    def at(self) -> float | None:
        return seconds(self.time)


class _Display(Struct):
    command: str | None = None


class _Request(Struct, rename="camel"):
    tool_name: str | None = None
    action: str | None = None
    display: _Display | None = None
    questions: object = ()


_REQUEST = ForeignDecoder(_Request)


def _find_question(event: _Event) -> str | None:
    request = _REQUEST.convert(event.request)
    if request is None or not isinstance(event.asks, str):
        return None
    detail = (request.display.command if request.display else None) or request.action or ""
    return join_questions(request.questions) or one_line(f"{event.asks}: {request.tool_name or 'a tool'} {detail}")


class _Tail(Tail[_Event]):
    def __init__(self) -> None:
        super().__init__()
        self._ends: set[str] = set()
        """Turns that came to their end."""

    def take(self, event: _Event) -> bool:
        match event.kind:
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
                    self.ask(_find_question(event))
            case _:
                pass
        return False


WIRE = TurnLog(
    decoder=ForeignDecoder(_Event),
    prompt="turn.prompt",
    kinds=("turn.ended", "interaction.request", "interaction.resolved"),
    step="context.append_loop_event",
    make_tail=_Tail,
    is_record=is_javascript_json,
    # kimi 2.1 cuts the log before such a line when it resumes, and goes on without the rest (2026-11)
    damage="lines are not JSON; kimi-code drops all that follows them",
)


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Resting | Skipped]:
    def read_in(bucket: Bucket) -> BucketReader:
        return BucketReader(read=lambda one: _read_session(SessionKey(NAME, home.path, bucket.name, one), bucket))

    return list_bucket_sessions(BUCKETS.list(home.path), _FILES, known, read_in)


def _read_session(key: SessionKey, bucket: Bucket) -> SessionRecord:
    path = f"{bucket.path}/{key.session_id}"
    found = read_state(f"{path}/state.json")
    wire = WIRE.read(f"{path}/{MAIN_LOG}")
    state = State(id="", cwd="") if isinstance(found, str) else found
    migrated_from = state.custom.kimi_cli_session_id if state.custom else None
    return wire.to_record(
        key,
        path,
        work_dir=state.cwd or None,
        title=state.title,  # kimi 2.1 gives none to a session of `kimi -p` (2026-11)
        created_at=seconds(state.created_at),
        updated_at=seconds(state.updated_at) or wire.updated_at,
        why_not=_find_obstacle(found, wire, key.session_id),
        archived=state.archived,
        sidecar=read_hint(f"{path}/runtime.json"),
        forked_from=state.forked_from,
        notes=(f"migrated from kimi-cli session {one_line(migrated_from)}",) if migrated_from else (),
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
