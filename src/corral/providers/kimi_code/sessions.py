"""Every kimi-code session on disk: listed with a look at three files each when known, read within a budget when not."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped
from corral.providers.kimi_code.places import NAME, Bucket, list_buckets
from corral.providers.kimi_code.state import State, read_state
from corral.providers.kimi_code.wire import Wire, read_wire
from corral.system.runtime_claims import read_hint
from corral.system.stamped import Stamped, list_stamped, make_group
from corral.system.stamps import read_stamps
from corral.system.text import one_line

WIRE = "agents/main/wire.jsonl"
_FILES = (WIRE, "state.json", "runtime.json")
"""All that a record rests on."""


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Resting | Skipped]:
    buckets: list[Bucket] = []
    for found in list_buckets(home.path):
        if isinstance(found, Skipped):
            yield found
        else:
            buckets.append(found)
    repeated = _find_repeated(buckets)
    groups = [make_group(bucket.path, bucket.sessions, _FILES) for bucket in buckets]
    for bucket, stamps in zip(buckets, read_stamps(groups, known.load), strict=True):
        yield from _list_bucket(home.path, bucket, stamps, repeated, known)


def _find_repeated(buckets: list[Bucket]) -> frozenset[str]:
    seen: set[str] = set()
    repeated: set[str] = set()
    for bucket in buckets:
        repeated.update(seen.intersection(bucket.sessions))
        seen.update(bucket.sessions)
    return frozenset(repeated)


def _list_bucket(
    home: str, bucket: Bucket, stamps: bytes, repeated: frozenset[str], known: Known
) -> Iterator[SessionRecord | Resting]:
    here = repeated.intersection(bucket.sessions)

    def fingerprint(session_id: str) -> tuple[int, ...]:
        return (session_id in here,)

    def read(session_id: str) -> SessionRecord:
        return _read_session(home, bucket.name, f"{bucket.path}/{session_id}", session_id, session_id in here)

    seen = Stamped(bucket.path, bucket.sessions, _FILES, stamps)
    return list_stamped(seen, known, sorted(here), fingerprint, read)


def _read_session(home: str, bucket: str, path: str, session_id: str, is_repeated: bool) -> SessionRecord:
    found = read_state(f"{path}/state.json")
    state = found if isinstance(found, State) else None
    wire = read_wire(f"{path}/{WIRE}")
    reason = _find_obstacle(found, wire, session_id)
    return SessionRecord(
        provider=NAME,
        home=home,
        scope=bucket,
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
        yield "the same id exists in another bucket: these are two sessions"
    if state is not None and state.migrated_from:
        yield f"migrated from kimi-cli session {one_line(state.migrated_from)}"
    yield from wire.notes


def _find_title(state: State | None, wire: Wire) -> str | None:
    # kimi 2.1 gives no title to a session of `kimi -p` (2026-11)
    title = one_line(state.title) if state and state.title else None
    return title or wire.first_prompt
