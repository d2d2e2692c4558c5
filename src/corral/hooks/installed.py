"""What corral knows of its hooks in one home: the record of the installation, and whether it still holds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.hooks.command import find_interpreter, find_missing_file, find_program, find_state_dir
from corral.hooks.edit.config_file import read_snapshot
from corral.hooks.edit.entries import EditRefused, Entry, decode_config, describe_fault
from corral.hooks.file_change import last_change
from corral.hooks.placed_program import find_fault, find_unbroken_since
from corral.hooks.targets import find_rejection, format_of
from corral.model.hook_target import ConfigFormat, HookTarget
from corral.sidecar.files import FileBytes, read_regular

_MAX_RECORD = 1 << 18


class Record(Struct, frozen=True, kw_only=True):
    """What we did to one configuration, kept in corral's state directory."""

    schema: int = 1
    provider: str
    home: str
    config_path: str
    format: ConfigFormat
    installed_at: float
    """Epoch seconds."""
    command: str
    events: tuple[str, ...]
    after_sha256: str
    """Of the configuration as we left it: while it is so, an uninstall gives back the bytes from before."""
    backup: str | None
    """A copy of the configuration as it was without us; None if there was no file."""
    created: tuple[str, ...] = ()
    """The containers in it that we made."""
    corral_version: str = ""
    unbroken_since: float | None = None
    """Epoch seconds: our entries were put in, or put back, then. None in records of older versions: `installed_at`."""
    interpreter_changed_at: float | None = None
    """Of the Python that the command names: its last change, as `last_change` told it when we put the entries in."""


class Installation(Struct, frozen=True, kw_only=True):
    """Our hooks in one home as they stand now."""

    provider: str
    home: str
    installed_at: float
    """Epoch seconds."""
    config_path: str
    present: bool
    """All our entries are in the configuration now."""
    config_ctime: float | None
    """When the configuration last changed, epoch seconds: processes that began later have read it so."""
    unbroken_since: float
    """The end of the last known gap, epoch seconds: nothing that a process reported before it can be relied on."""
    program: str | None = None
    """The hook program that our entries run."""
    beat_s: float | None = None
    """How often a session with our hooks is heard of, whatever happens in it; None where it is not."""
    rejection: str | None = None
    """One of the problems: the CLI runs no hook at all, because it does not accept the configuration."""
    problems: tuple[str, ...] = ()
    """What keeps the hooks from working, one sentence each."""

    @property
    def works(self) -> bool:
        """Whether an agent that starts now will report."""
        return self.present and not self.problems


def record_path(state_dir: str, provider: str, home: str) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:16]
    return Path(state_dir, "hooks", f"{provider}-{name}.json")


def read_record(state_dir: str, provider: str, home: str) -> Record | None:
    """The record of an installation; None if there is none, or none that can be read."""
    found = read_regular(str(record_path(state_dir, provider, home)), _MAX_RECORD)
    if not isinstance(found, FileBytes):
        return None
    try:
        record = msgspec.json.decode(found.data, type=Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    same_home = os.path.realpath(record.home) == os.path.realpath(home)
    return record if same_home and (record.schema, record.provider) == (1, provider) else None


def read_installation(state_dir: str, target: HookTarget, home: str) -> Installation | None:
    """The installation in one home, looked at now; None if corral never installed its hooks there."""
    record = read_record(state_dir, target.provider, home)
    if record is None:
        return None
    problems: list[str] = []
    present = False
    changed_at = rejection = None
    try:
        snapshot = read_snapshot(record.config_path)
        changed_at = snapshot.changed_at
        if snapshot.data is None:
            problems.append("the configuration is gone")
        else:
            text = decode_config(snapshot.data)
            edit = format_of(record.format, target)
            found = [entry for entry in edit.find_entries(text) if entry.command == record.command]
            present = covers(found, record.events)
            if not present:
                problems.append(_describe_lack(found, record.events))
            if off := edit.find_switch_off(text):
                problems.append(off)
            if rejection := find_rejection(target, text):
                problems.append(rejection)
    except EditRefused as refusal:
        problems.append(describe_fault(refusal))
    program = find_program(record.command)
    if missing := find_missing_file(record.command):
        problems.append(f"{missing} is missing")
    elif program is not None and (fault := find_fault(state_dir, program)):
        problems.append(f"{program} {fault}")
    told = find_state_dir(record.command)
    if told is not None and os.path.realpath(told) != os.path.realpath(state_dir):
        problems.append(f"our hooks report to {told}")
    placed = find_unbroken_since(state_dir, program) if program is not None else None
    return Installation(
        provider=target.provider,
        home=home,
        installed_at=record.installed_at,
        config_path=record.config_path,
        present=present,
        config_ctime=changed_at,
        unbroken_since=max(reported_since(record), placed or 0.0),
        program=program,
        beat_s=target.heartbeat.every_s if target.heartbeat and target.heartbeat.event in record.events else None,
        rejection=rejection,
        problems=tuple(problems),
    )


def reported_since(record: Record) -> float:
    """Epoch seconds: since then our entries were there, and so was the Python that they name.

    One that was replaced, by an upgrade of the system say, can't be told from one that was away.
    """
    since = record.installed_at if record.unbroken_since is None else record.unbroken_since
    interpreter = find_interpreter(record.command)
    changed_at = last_change(interpreter) if interpreter is not None else None
    if changed_at is None or changed_at == record.interpreter_changed_at:
        return since
    return max(since, changed_at)


def covers(entries: Sequence[Entry], events: Sequence[str]) -> bool:
    """Whether these entries report each of the events whenever it happens."""
    return {entry.event for entry in entries if not entry.is_narrowed} >= set(events)


def _describe_lack(found: Sequence[Entry], events: Sequence[str]) -> str:
    if not found:
        return "another program has removed our hooks"
    if {entry.event for entry in found} >= set(events):
        return "some hooks of ours were given a matcher: they do not run for every session"
    return "some hooks are missing"
