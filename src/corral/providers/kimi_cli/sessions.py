"""Every kimi-cli session on disk: listed with a look at four files each when known, read within a budget when not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from zlib import crc32

from msgspec import Struct

from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped
from corral.providers.kimi_cli.places import NAME, Bucket, list_buckets
from corral.providers.kimi_cli.registry import LOCAL, Registry, read_registry
from corral.providers.kimi_cli.wire import Wire, read_wire
from corral.sidecar.files import Unreadable, read_regular
from corral.system.foreign_json import ForeignDecoder
from corral.system.runtime_claims import read_hint
from corral.system.stamped import Stamped, list_stamped, make_group
from corral.system.stamps import read_stamps, to_stamp
from corral.system.text import one_line
from corral.system.transcripts import HEAD_BUDGET, open_transcript

_LARGEST_STATE = 1 << 20
_FILES = ("wire.jsonl", "context.jsonl", "state.json", "runtime.json")
"""All that a record rests on, beside kimi.json and an older single file."""


class _State(Struct):
    custom_title: str | None = None
    archived: bool = False


class _Message(Struct):
    role: str


_STATE = ForeignDecoder(_State)
_MESSAGE = ForeignDecoder(_Message)


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
    buckets: list[Bucket] = []
    for found in list_buckets(home.path):
        if isinstance(found, Skipped):
            yield found
        else:
            buckets.append(found)
    repeated = _find_repeated(buckets)
    groups = [make_group(bucket.path, bucket.directories, _FILES) for bucket in buckets]
    for bucket, stamps in zip(buckets, read_stamps(groups, known.load), strict=True):
        setting = _find_setting(home.path, bucket.name, registry)
        yield from _list_bucket(bucket, stamps, setting, repeated, known)


def _find_repeated(buckets: list[Bucket]) -> frozenset[str]:
    # kimi 1.51: `--session ID` of another directory makes an empty session of the same id here (2026-11)
    seen: set[str] = set()
    repeated: set[str] = set()
    for bucket in buckets:
        ids = bucket.legacy.union(bucket.directories)
        repeated |= seen & ids
        seen |= ids
    return frozenset(repeated)


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


def _list_bucket(
    bucket: Bucket, stamps: bytes, setting: _Setting, repeated: frozenset[str], known: Known
) -> Iterator[SessionRecord | Resting | Skipped]:
    here = repeated.intersection(bucket.directories)
    beside = {
        one: _stamp(f"{bucket.path}/{one}.jsonl") for one in sorted(bucket.legacy.intersection(bucket.directories))
    }

    def fingerprint(session_id: str) -> tuple[int, ...]:
        return *beside.get(session_id, ()), setting.seal, session_id in here, session_id in bucket.legacy

    def read(session_id: str) -> SessionRecord:
        path = f"{bucket.path}/{session_id}"
        return _read_session(path, session_id, setting, session_id in here, session_id in bucket.legacy)

    seen = Stamped(bucket.path, bucket.directories, _FILES, stamps)
    yield from list_stamped(seen, known, (setting.seal, sorted(here), beside), fingerprint, read)
    for session_id in sorted(bucket.legacy.difference(bucket.directories)):
        yield _read_legacy(bucket, session_id, setting, session_id in repeated)


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
        notes.append("an older single file of the same id lies beside it, and is not used")
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
    mtime = _find_mtime(path)
    wire = Wire()
    return SessionRecord(
        provider=NAME,
        home=setting.home,
        scope=setting.bucket,
        session_id=session_id,
        path=path,
        work_dir=setting.work_dir,
        title=None,
        created_at=None,
        updated_at=mtime,
        durable=context.durable,
        not_durable_reason=context.reason,
        turn=wire.turn,
        notes=tuple(notes),
    )


def _outer_notes(setting: _Setting, is_repeated: bool) -> list[str]:
    notes = [setting.note] if setting.note else []
    if is_repeated:
        notes.append("the same id exists in another bucket: these are two sessions")
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
