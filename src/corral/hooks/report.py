"""Part of the hook program: turns one report of a CLI into journal and runtime.json."""

# pathlib is too slow to import in a hook.

import os
from typing import Any, NamedTuple

from corral.hooks import journal_file, session_place
from corral.hooks.cli_process import CliProcess, find_version, read_link, serves_many
from corral.hooks.journal_file import Fields, Header
from corral.hooks.program import MOVES_ON_START
from corral.sidecar import atomic
from corral.sidecar.processes import hostname, own_identity, read_identity
from corral.sidecar.record import RuntimeRecord, is_valid_id
from corral.sidecar.session_file import NAME, read_file
from corral.sidecar.writing import clear, write
from corral.verdicts.open_sessions import current_positions, open_sessions

HAS_RUNTIME_FILE = ("kimi-cli", "kimi-code")
"""Qwen writes its own runtime.json."""


class Report(NamedTuple):
    """What one run of the hook has to go by."""

    process: CliProcess
    payload: dict[str, Any]
    state_dir: str
    seen_at: float
    boottime: float


def note(report: Report) -> None:
    """Writes down one report, or nothing if it is not fit to be believed."""
    session_id = _text(report.payload, "session_id", 128)
    event = _text(report.payload, "hook_event_name", 64)
    if session_id is None or event is None or not is_valid_id(session_id):
        return
    identity = read_identity(report.process.pid)
    if identity is None or identity.start_ticks != report.process.start_ticks:
        return  # the CLI ended, and its number may be another's already
    cwd = read_link(identity.pid, "cwd")
    header = Header(
        report.process.provider, identity, hostname(), session_place.find_home(report.process.provider, cwd)
    )
    directory = journal_file.directory_of(report.state_dir, header.provider)
    place = journal_file.open_locked(directory)
    path = journal_file.path_of(directory, identity)
    fields = journal_file.load(path, header)
    is_new = not fields["events"]
    changed = _apply(report, header, fields, event, session_id, cwd)
    wanted = _wanted_files(fields, header)
    known: list[str] = [file for file in fields["runtime_files"] if isinstance(file, str)]
    left = [file for file in known if file not in wanted]
    if changed or not set(wanted) <= set(known):
        # Before the files themselves: a file of ours must never lie about without our knowing.
        fields["runtime_files"] = [file for file in left if os.path.lexists(file)] + list(wanted)
        if place is not None:
            _save(place, path, fields)
    for file in left:
        clear(file, process=identity, best_effort=True)
    for file, start in wanted.items():
        _put(file, header, start, fields["version"])
    if is_new and place is not None:
        journal_file.sweep(directory, report.seen_at)


def _save(place: atomic.Directory, path: str, fields: Fields) -> None:
    name = os.path.basename(path)
    try:
        atomic.replace(place, name, journal_file.encode(fields), own_identity())
    except OSError:
        return  # a full or read-only disk: runtime.json may still be writable
    atomic.sweep(place, name)


def _apply(report: Report, header: Header, fields: Fields, event: str, session_id: str, cwd: str) -> bool:
    """Extends the journal; False when there is nothing new to say."""
    events: list[Fields] = fields["events"]
    pairs = journal_file.pairs_of(events)
    stamp: Fields = {"session_id": session_id, "at": report.seen_at, "boottime": report.boottime}
    if event == "SessionEnd":
        reason = _text(report.payload, "reason", 64)
        journal_file.add_event(fields, {"event": "end", **stamp, "reason": reason})
        return True
    source = _text(report.payload, "source", 64)
    if event != "SessionStart":
        # Any other event shows which session is served, and may come late: believed only if it tells of a
        # session that was never heard of, in a process that has none.
        opened = open_sessions(pairs)
        if any(session_id == known for _, known in pairs) or (opened and not fields["many"]):
            return False
        source = "heartbeat"
    if not pairs or fields["version"] is None:
        fields["version"] = find_version(report.process)
        fields["many"] = fields["many"] or serves_many(report.process, header.home)
    if header.provider in MOVES_ON_START and not fields["many"]:
        for position in open_sessions(pairs):
            left: str = events[position]["session_id"]
            if left != session_id:
                ended = {"event": "end", **stamp, "session_id": left, "reason": "replaced"}
                journal_file.add_event(fields, ended)
    given = _text(report.payload, "cwd", 4096)
    transcript = _text(report.payload, "transcript_path", 8192)
    scope = session_place.find_scope(header.provider, header.home, session_id, given, cwd, transcript)
    model, model_source = _model(report, header)
    start: Fields = {
        "event": "start",
        **stamp,
        "source": source,
        "work_dir": session_place.find_work_dir(given, cwd, scope),
        "scope": scope,
        "model": model,
        "model_source": model_source,
    }
    journal_file.add_event(fields, start)
    return True


def _wanted_files(fields: Fields, header: Header) -> dict[str, Fields]:
    """The runtime.json that should name this process now, by path, with the start that each stands for."""
    if header.provider not in HAS_RUNTIME_FILE:
        return {}
    events: list[Fields] = fields["events"]
    wanted: dict[str, Fields] = {}
    for position in current_positions(journal_file.pairs_of(events), bool(fields["many"])):
        start = events[position]
        scope = start.get("scope")
        if isinstance(scope, str):
            directory = session_place.session_dir(header.home, scope, start["session_id"])
            wanted[os.path.join(directory, NAME)] = start
    return wanted


def _put(file: str, header: Header, start: Fields, version: str | None) -> None:
    """Makes the file name this process; not if it does already, nor if it names another that may live."""
    found = read_file(file).record
    known = (found.identity, found.session_id) if isinstance(found, RuntimeRecord) else None
    if known == (header.identity, start["session_id"]):
        return
    write(
        os.path.dirname(file),
        session_id=start["session_id"],
        work_dir=start.get("work_dir") or "/",
        cli=header.provider,
        version=version or "",
        provider=header.provider,
        process=header.identity,
        best_effort=True,
    )


def _model(report: Report, header: Header) -> tuple[str | None, str | None]:
    if model := _text(report.payload, "model", 256):
        return model, "payload"
    if header.provider != "kimi-cli":
        return None, None
    if model := os.environ.get("KIMI_MODEL_NAME"):
        return model[:256], "KIMI_MODEL_NAME"
    # kimi-cli 1.51.0 writes its model nowhere: the default at the start of the session is the best there is.
    from corral.sidecar.files import FileBytes, read_regular

    found = read_regular(os.path.realpath(os.path.join(header.home, "config.toml")), 1 << 20)
    if not isinstance(found, FileBytes) or b"default_model" not in found.data:
        return None, None
    import tomllib

    try:
        model = tomllib.loads(found.data.decode("utf-8")).get("default_model")
    except ValueError:
        return None, None
    return (model[:256], "config.toml") if isinstance(model, str) and model else (None, None)


def _text(payload: dict[str, Any], name: str, limit: int) -> str | None:
    """A text of the payload that is fit to be kept; None for anything else."""
    value = payload.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= limit or "\0" in value:
        return None
    return value
