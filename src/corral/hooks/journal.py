"""Reading journals: what the hook wrote, strictly, or why it is not believed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from corral.hooks.program.journal_file import MARK, MAX_BYTES, SCHEMA, directory_of
from corral.machine.procfs import has_ended
from corral.model.journal import Journal, JournalEvent, JournalEventKind
from corral.model.key import is_valid_id
from corral.model.record import Skipped
from corral.sidecar.files import FileBytes, read_regular
from corral.sidecar.identity import ProcessIdentity

_T = TypeVar("_T")
_MAX_PID = 4_194_304
_LONG = 10
"""Digits that no PID has."""


class _Heard(Struct):
    at: float
    awake: float | None = None


class _File(Struct):
    schema: int
    provider: str
    boot_id: str
    pid_ns: int
    pid: int
    start_ticks: int
    hostname: str
    home: str
    events: tuple[JournalEvent, ...]
    version: str | None = None
    many: bool = False
    dropped_events: int = 0
    heard: _Heard | None = None
    home_id: tuple[int, int] | None = None


class _Schema(Struct):
    schema: int


_SCHEMA = msgspec.json.Decoder(_Schema)
_FILE = msgspec.json.Decoder(_File)


def read_journals(state_dir: str, provider: str) -> list[Journal | Skipped]:
    """Every journal of a provider, in the order of their names. No directory: nothing was ever reported."""
    return list(_list_journals(directory_of(state_dir, provider), provider))


def read_journal(path: str, provider: str) -> Journal | Skipped:
    """One journal. The identity in it must be the one in its name: a copied file is about another process."""
    found = read_regular(path, MAX_BYTES)
    if not isinstance(found, FileBytes):
        return Skipped(provider=provider, path=path, reason=found.reason)
    schema = _decode(_SCHEMA, found.data)
    if isinstance(schema, str):
        return Skipped(provider=provider, path=path, reason=schema)
    if schema.schema != SCHEMA:
        return Skipped(provider=provider, path=path, reason=f"journal schema {schema.schema} is not {SCHEMA}")
    file = _decode(_FILE, found.data)
    if isinstance(file, str):
        return Skipped(provider=provider, path=path, reason=file)
    if problem := _find_problem(file, path, provider):
        return Skipped(provider=provider, path=path, reason=problem)
    return Journal(
        provider=file.provider,
        path=path,
        identity=ProcessIdentity(file.boot_id, file.pid_ns, file.pid, file.start_ticks),
        hostname=file.hostname,
        home=file.home,
        version=file.version,
        many=file.many,
        events=file.events,
        dropped_events=file.dropped_events,
        heard_at=file.heard.at if file.heard else None,
        heard_awake=file.heard.awake if file.heard else None,
        home_id=file.home_id,
        owner_uid=found.stat.st_uid,
    )


def _list_journals(directory: str, provider: str) -> Iterator[Journal | Skipped]:
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    except OSError as error:
        yield Skipped(provider=provider, path=directory, reason=f"can't be listed: {error.strerror}")
        return
    missed = _find_missed(directory, names)
    for name in names:
        if not name.startswith("."):  # the hook's own temps and marks
            found = read_journal(os.path.join(directory, name), provider)
            yield structs.replace(found, missed=missed.get(name)) if isinstance(found, Journal) else found
    for name in sorted(missed.keys() - set(names)):
        if _runs(name.removesuffix(".json")):
            reason = "its first report could not be recorded: what it serves is not known"
            yield Skipped(provider=provider, path=os.path.join(directory, name), reason=reason)


def _find_missed(directory: str, names: Iterable[str]) -> dict[str, JournalEventKind]:
    """The journals that lack a report: its mark is still there, and its writer is gone."""
    missed: dict[str, JournalEventKind] = {}
    for name in names:
        about, _, rest = name.removeprefix(".").partition(".")
        writer, _, rest = rest.partition(".")
        # In this order: a writer removes its mark before it ends.
        if name.endswith(MARK) and not _runs(writer) and os.path.lexists(os.path.join(directory, name)):
            is_end = rest.startswith(f"{JournalEventKind.END}.")
            known = missed.get(f"{about}.json", JournalEventKind.END)
            missed[f"{about}.json"] = known if is_end else JournalEventKind.START
    return missed


def _runs(process: str) -> bool:
    """Whether the process with this PID and start, as a file's name says them, has not ended."""
    pid, _, ticks = process.partition("-")
    if not (pid.isdecimal() and ticks.isdecimal() and len(pid) < _LONG):
        return False
    return not has_ended(int(pid), int(ticks))


def _decode(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T | str:
    """The value, or why there is none."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"not a journal: {error}"


def _find_problem(file: _File, path: str, provider: str) -> str | None:
    if file.provider != provider:
        return f"it is a journal of {file.provider!r}"
    if not 1 <= file.pid <= _MAX_PID or file.start_ticks < 0 or file.pid_ns < 0 or not file.boot_id:
        return "it names no valid process"
    if os.path.basename(path) != f"{file.pid}-{file.start_ticks}.json":
        return f"it is about process {file.pid} with start {file.start_ticks}, not the one in its name"
    for event in file.events:
        if not is_valid_id(event.session_id):
            return "it names an invalid session id"
        if not all(map(math.isfinite, (event.at, event.boottime, event.awake or 0.0))):
            return "it has an event without a valid time"
    if file.heard and not all(map(math.isfinite, (file.heard.at, file.heard.awake or 0.0))):
        return "it has an event without a valid time"
    return None
