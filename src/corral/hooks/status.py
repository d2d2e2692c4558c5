"""The state of our hooks in each home: what we installed, whether it still works, what would help."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from corral.hooks.command import (
    find_fault,
    find_interpreter,
    find_missing_file,
    find_program,
    find_state_dir,
    find_unbroken_since,
    hook_command,
    program_path,
)
from corral.hooks.edit import EditRefused, Entry, decode_config, describe_fault, find_rejection, format_of
from corral.hooks.edit.config_file import last_change, read_snapshot
from corral.hooks.program import bundle
from corral.hooks.settings import Setting, list_settings
from corral.model.hook_target import ConfigFormat, HookTarget
from corral.model.session import Degraded
from corral.providers.asking import Asker
from corral.providers.contract import Provider
from corral.providers.registry import all_providers
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
    """Of the Python that the command names: when it last changed, as `last_change` said when we added the entries."""


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
    """Seconds between two reports of a session with our hooks, whatever happens in it; None where there are none."""
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

    A Python that was replaced, by a system upgrade for example, looks like one that was missing for a while.
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
        return "some of our hooks were given a matcher: they don't run for every session"
    return "some hooks are missing"


class Status(Struct, frozen=True, kw_only=True):
    """Our hooks in one home. `problems` is empty when all is well, or when there is nothing of ours."""

    provider: str
    home: str = ""
    """Empty, as all else, when the provider could not say where its hooks are."""
    config_path: str = ""
    home_exists: bool = False
    installed: bool = False
    """All our entries are in the configuration now."""
    installed_at: float | None = None
    """Epoch seconds; None when corral has no record of it."""
    events: tuple[str, ...] = ()
    problems: tuple[str, ...]
    remedy: str | None = None
    """A command that helps; None when nothing is wrong, or only the person can mend it."""
    works: bool = False
    """An agent that starts now will report."""


def read_statuses(provider: str | None, homes: Sequence[str]) -> list[Status]:
    """In each home; of a provider that could not say where its hooks are, that problem."""
    asker = Asker()
    found = [read_status(setting) for setting in list_settings(provider, homes, asker=asker)]
    return found + [Status(provider=told.provider, problems=(say_failure(told),)) for told in asker.degraded]


def read_status(setting: Setting) -> Status:
    """Look at one home. Runs nothing and changes nothing."""
    installation = read_installation(setting.state_dir, setting.target, setting.home)
    problems = list(installation.problems) if installation else []
    events: tuple[str, ...] = ()
    commands: set[str] = set()
    off: str | None = None
    is_usable = True
    try:
        snapshot = read_snapshot(setting.config_path)
        if snapshot.data is not None:
            edit, text = format_of(setting.target.format, setting.target), decode_config(snapshot.data)
            entries, off = edit.find_entries(text), edit.find_switch_off(text)
            events = tuple(entry.event for entry in entries)
            commands = {entry.command for entry in entries}
    except EditRefused as refusal:
        is_usable = False
        if not installation:
            problems.append(describe_fault(refusal))
    wanted = hook_command(setting.provider, setting.data_dir, setting.state_dir)
    if commands:
        problems += _find_drift(setting, commands, wanted, known=installation is not None)
    installed = installation.present if installation else commands == {wanted}
    if off is not None and commands:
        problems.append(off)
    rejection = installation.rejection if installation else None
    is_mended_by_us = is_usable and any(problem not in (off, rejection) for problem in problems)
    return Status(
        provider=setting.provider,
        home=setting.home,
        config_path=setting.config_path,
        home_exists=Path(setting.home).is_dir(),
        installed=installed,
        installed_at=installation.installed_at if installation else None,
        events=events,
        problems=tuple(dict.fromkeys(problems)),
        remedy=install_command(setting) if is_mended_by_us else None,
        works=installation.works if installation else installed and not problems,
    )


def install_command(setting: Setting) -> str:
    """The command that installs our hooks there."""
    words = ["corral", "hooks", "install", setting.provider]
    return shlex.join([*words, "--home", setting.home] if setting.is_chosen else words)


def _find_drift(setting: Setting, commands: set[str], wanted: str, *, known: bool) -> list[str]:
    problems: list[str] = []
    if not known:
        problems.append("the hooks are there, but corral has no record of installing them")
    if commands != {wanted}:
        problems.append("the command is not the one that this corral would install")
    for command in sorted(commands):
        if missing := find_missing_file(command):
            problems.append(f"{missing} is missing")
    program = program_path(setting.data_dir)
    problem = bundle.find_problem(program)
    if problem is not None and f"{program} {problem}" not in problems:
        problems.append(f"{program} {problem}")
    return problems


def find_silence(provider: Provider, home: str) -> str | None:
    """Why this CLI, started now in this home, will not say which session it has; None where its word is expected."""
    capabilities = provider.capabilities
    if not capabilities.needs_hooks:
        return None
    asker = Asker()
    statuses = [read_status(setting) for setting in list_settings(provider.name, [home], asker=asker)]
    if failed := asker.degraded:
        return f"{capabilities.title} reports its session only through hooks, and {say_failure(failed[0])}"
    if all(status.installed and not status.problems for status in statuses):
        return None
    problem = next((problem for status in statuses for problem in status.problems), "they are not installed")
    return f"{capabilities.title} reports its session only through hooks, and {problem}"


def read_hook_status(provider: str, home: str, *, is_found: bool) -> tuple[Setting, Status] | None:
    """Our hooks in one home; None where the CLI takes none. `is_found`: corral finds this home by itself."""
    for setting in list_settings(provider, [home]):
        setting = structs.replace(setting, is_chosen=not is_found)
        return setting, read_status(setting)
    return None


def advise_hooks(setting: Setting, status: Status) -> str | None:
    """What would make the CLI of this home report: a command, or what only the person can mend; None: it does."""
    if status.problems:
        return status.remedy or f"fix {status.config_path}: {status.problems[0]}"
    return None if status.installed else install_command(setting)


def lack_hooks() -> bool:
    """Whether a CLI that reports its session only through hooks has a home where `corral hooks install` would help."""
    needing = [provider.name for provider in all_providers() if provider.capabilities.needs_hooks]
    for setting in (one for name in needing for one in list_settings(name, existing=True)):
        status = read_status(setting)
        if status.home_exists and (status.remedy is not None or not (status.installed or status.problems)):
            return True
    return False


def say_failure(told: Degraded) -> str:
    return f"corral could not {told.step}: {told.reason}"
