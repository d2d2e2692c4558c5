"""Part of the hook program: turns one report of a CLI into journal and runtime.json."""

# pathlib, re, json and typing are too slow to import in a hook.

from __future__ import annotations

import os

from corral.hooks.program import journal_file
from corral.hooks.program.journal_file import Header
from corral.model.open_sessions import current_positions, open_sessions
from corral.providers.kit.reported import END, SERVES, START
from corral.sidecar import atomic
from corral.sidecar.light import NamedTuple
from corral.sidecar.processes import hostname, own_identity, read_identity
from corral.sidecar.record import RuntimeRecord, is_valid_id
from corral.sidecar.session_file import NAME, clear, read_file, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.hooks.program.journal_file import Fields
    from corral.hooks.program.reporter import Reporter
    from corral.providers.kit.caller import Caller
    from corral.providers.kit.reported import Payload, Told
    from corral.sidecar.identity import ProcessIdentity


_BEAT = "heartbeat"
_LATE_SECONDS = 30.0
"""A hook gives up after four; this is for one that hung before it began."""


class Report(NamedTuple):
    """What one run of the hook has to go by."""

    reporter: Reporter
    caller: Caller
    payload: Payload
    state_dir: str
    seen_at: float
    boottime: float
    awake: float
    event: str | None = None
    """As our command line names it, where it does."""


def note(report: Report) -> None:
    """Write one report down, or nothing if it can't be believed."""
    reporter, caller = report.reporter, report.caller
    told = reporter.read(report.payload, report.event)
    if told is None or not is_valid_id(told.session_id):
        return
    report.payload["session_id"] = told.session_id
    identity = read_identity(caller.pid)
    if identity is None or identity.start_ticks != caller.start_ticks:
        return  # the CLI ended, and its number may be another's already
    home = reporter.find_home(caller)
    header = Header(reporter.name, identity, hostname(), home, _identify(home))
    directory = journal_file.directory_of(report.state_dir, header.provider)
    path = journal_file.path_of(directory, identity)
    writer = own_identity()
    mark = None
    # Without one of these a process seems to serve another session than it does.
    if writer is not None and told.kind in (START, END):
        mark = journal_file.begin_report(path, writer, told.kind, report.boottime)
    place = journal_file.open_locked(directory)
    fields = journal_file.load(path, header)
    fields["home"], fields["home_id"] = header.home, header.home_id
    is_new = not fields["events"]
    changed = _apply(report, header, fields, told)
    wanted = _wanted_files(fields, header, reporter)
    known: list[str] = [file for file in fields["runtime_files"] if isinstance(file, str)]
    left = [file for file in known if file not in wanted]
    saved = True
    if changed or not set(wanted) <= set(known):
        # Before the files themselves: there must never be a file of ours that we don't know of.
        fields["runtime_files"] = [file for file in left if os.path.lexists(file)] + list(wanted)
        saved = place is not None and _save(place, path, fields, writer)
    if mark is not None and (saved or not changed):
        journal_file.end_report(mark, is_all_told=told.kind == START and not fields["many"])
    for file in left:
        clear(file, process=identity, best_effort=True)
    for file, start in wanted.items():
        _put(file, header, start, fields["version"])
    if is_new and place is not None:
        journal_file.sweep(directory, report.seen_at)


def _identify(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_dev, status.st_ino]


def _save(place: atomic.Directory, path: str, fields: Fields, writer: ProcessIdentity | None) -> bool:
    name = os.path.basename(path)
    try:
        atomic.replace(place, name, journal_file.encode(fields), writer)
    except OSError:
        return False  # a full or read-only disk: runtime.json may still be writable
    atomic.sweep(place, name)
    return True


def _apply(report: Report, header: Header, fields: Fields, told: Told) -> bool:
    """Extends the journal; False when there is nothing new to say."""
    events: list[Fields] = fields["events"]
    pairs = journal_file.pairs_of(events)
    reporter, caller, payload = report.reporter, report.caller, report.payload
    session_id = told.session_id
    stamp: Fields = {
        "session_id": session_id,
        "at": report.seen_at,
        "boottime": report.boottime,
        "awake": report.awake,
    }
    if told.kind == END:
        journal_file.add_event(fields, {"event": "end", **stamp, "reason": told.word})
        return True
    source = told.word
    if told.kind == SERVES:
        # Such an event shows which session is served. It may come late, from one that was just left.
        current = current_positions(pairs, bool(fields["many"]))
        if any(events[position]["session_id"] == session_id for position in current):
            fields["heard"] = stamp
            return True
        left_at = journal_file.find_left(events, session_id)
        if left_at is not None and report.boottime - left_at < _LATE_SECONDS:
            return False
        source = _BEAT
    if not pairs or fields["version"] is None:
        fields["version"] = reporter.find_version(caller)
        fields["many"] = fields["many"] or reporter.serves_many(caller, header.home)
    if (reporter.moves_on_start or source == _BEAT) and not fields["many"]:
        for position in open_sessions(pairs):
            left: str = events[position]["session_id"]
            if left != session_id:
                ended = {"event": "end", **stamp, "session_id": left, "reason": "replaced"}
                journal_file.add_event(fields, ended)
    scope = reporter.find_scope(caller, payload, header.home)
    model, model_source = reporter.find_model(payload, header.home)
    start: Fields = {
        "event": "start",
        **stamp,
        "source": source,
        "work_dir": reporter.find_work_dir(caller, payload, scope),
        "scope": scope,
        "model": model,
        "model_source": model_source,
    }
    journal_file.add_event(fields, start)
    return True


def _wanted_files(fields: Fields, header: Header, reporter: Reporter) -> dict[str, Fields]:
    """The runtime.json that should name this process now, by path, with the start that each stands for."""
    events: list[Fields] = fields["events"]
    wanted: dict[str, Fields] = {}
    for position in current_positions(journal_file.pairs_of(events), bool(fields["many"])):
        start = events[position]
        scope = start.get("scope")
        directory = reporter.session_dir(header.home, scope, start["session_id"]) if isinstance(scope, str) else None
        if directory is not None:
            wanted[os.path.join(directory, NAME)] = start
    return wanted


def _put(file: str, header: Header, start: Fields, version: str | None) -> None:
    """Make the file name this process, unless it does already or names another that may be alive."""
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
        reported_by="hook",
        best_effort=True,
    )
