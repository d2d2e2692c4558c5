"""Installs and removes our hooks: only our entries, never a byte of anybody else's."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from corral.hooks.command import find_interpreter, find_missing_file, hook_command, place_program
from corral.hooks.edit import EditRefused, Entry, Format, config_file, decode_config, find_rejection, format_of
from corral.hooks.edit.config_file import Changed, Snapshot, last_change
from corral.hooks.settings import Setting, events_for, list_settings
from corral.hooks.status import Record, covers, read_record, record_path, reported_since, say_failure
from corral.model.hook_install import Done, Outcome
from corral.providers.asking import Asker
from corral.version import __version__

_ATTEMPTS = 20
_BACKUPS_KEPT = 10


def install(setting: Setting) -> Done:
    """Ask the CLI of one home to report its sessions. Safe to repeat."""
    if not Path(setting.home).is_dir():
        return _refused(setting, f"{setting.home} does not exist: start {setting.provider} once, or give --home")
    return _attempt(setting, _install_once)


def uninstall(setting: Setting) -> Done:
    """Take our entries out. A configuration that nobody touched since gets its very bytes back."""
    return _attempt(setting, _uninstall_once)


def in_each_home(act: Callable[[Setting], Done], provider: str | None, homes: Sequence[str]) -> list[Done]:
    """Install or uninstall in the homes that exist; refused for a provider that could not say where its hooks are."""
    asker = Asker()
    done = [act(setting) for setting in list_settings(provider, homes, existing=True, asker=asker)]
    return done + [
        Done(provider=told.provider, home="", config_path="", outcome=Outcome.REFUSED, message=say_failure(told))
        for told in asker.degraded
    ]


def _attempt(setting: Setting, edit: Callable[[Setting], Done]) -> Done:
    """Edit the configuration, and start over while another program changes it too."""
    try:
        for _ in range(_ATTEMPTS):
            try:
                return edit(setting)
            except Changed:
                time.sleep(0.005)
    except EditRefused as refusal:
        return _refused(setting, f"{setting.config_path}: {refusal}")
    except OSError as error:
        return _refused(setting, f"{error.filename or setting.config_path}: {error.strerror or error}")
    return _refused(setting, f"{setting.config_path}: another program keeps changing it")


def _install_once(setting: Setting) -> Done:
    _require_writable(setting.state_dir)
    _require_writable(os.path.join(setting.state_dir, "hooks"))
    place_program(setting.data_dir, setting.state_dir)
    now = config_file.read_snapshot(setting.config_path)
    record = read_record(setting.state_dir, setting.provider, setting.home)
    edit = format_of(setting.target.format, setting.target)
    command = hook_command(setting.provider, setting.data_dir, setting.state_dir)
    entries = [Entry(event, command) for event in events_for(setting.target, setting.versions)]
    events = tuple(entry.event for entry in entries)
    text = decode_config(now.data or b"")
    is_there = now.data is not None and sorted(edit.find_entries(text)) == sorted(entries)
    before = None if now.data is None or is_there else _without_us(now, text, edit, record)
    clean = decode_config(before or b"")
    after = text if is_there else edit.new_text(entries) if before is None else edit.add_entries(clean, entries)
    rejection = find_rejection(setting.target, after)
    broken = f"installed, but {rejection}: fix that entry" if rejection else None
    if after.encode() == now.data:
        if record is None or (record.command, record.events) != (command, events):
            # The entries are there, and no record of how: an uninstall will take them out one by one.
            _save_record(setting, command, events, "", None, ("hooks", *events), time.time())
        return _done(setting, Outcome.BROKEN if broken else Outcome.UNCHANGED, broken or "already installed")
    created = edit.list_missing(clean, entries) if before is not None else ()
    since = (
        time.time()
        if record is None or now.data is None or _is_gap(text, setting, edit, record)
        else reported_since(record)
    )
    backup = _back_up(setting, before)
    if now.data is None:
        os.makedirs(os.path.dirname(now.path), mode=0o700, exist_ok=True)
    config_file.replace(now, after.encode())
    _save_record(setting, command, events, config_file.digest_of(after.encode()), backup, created, since)
    told = broken or f"reports {', '.join(events)}"
    return _done(setting, Outcome.BROKEN if broken else Outcome.INSTALLED, told, backup)


def _uninstall_once(setting: Setting) -> Done:
    now = config_file.read_snapshot(setting.config_path)
    path = record_path(setting.state_dir, setting.provider, setting.home)
    after = None
    if now.data is not None:
        record = read_record(setting.state_dir, setting.provider, setting.home)
        after = _without_us(now, decode_config(now.data), format_of(setting.target.format, setting.target), record)
    if after == now.data:
        path.unlink(missing_ok=True)
        return _done(setting, Outcome.UNCHANGED, "no hooks of ours are in it")
    backup = _back_up(setting, now.data)
    if after is None:
        config_file.remove(now)
    else:
        config_file.replace(now, after)
    path.unlink(missing_ok=True)
    return _done(setting, Outcome.REMOVED, "removed", backup)


def _require_writable(directory: str) -> None:
    """What can't be recorded must not be installed: nobody could take it out again cleanly. Raises OSError."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory)


def _is_gap(text: str, setting: Setting, edit: Format, record: Record) -> bool:
    """Whether the entries that we are about to replace were not all there, or could not run."""
    found = [entry for entry in edit.find_entries(text) if entry.command == record.command]
    could_run = find_missing_file(record.command) is None and edit.find_switch_off(text) is None
    return not (covers(found, record.events) and could_run and find_rejection(setting.target, text) is None)


def _without_us(now: Snapshot, text: str, edit: Format, record: Record | None) -> bytes | None:
    """The configuration as it would be without us; None if there would be none."""
    if record is not None and record.after_sha256 == now.digest:
        if record.backup is None:
            return None
        found = config_file.read_snapshot(record.backup)
        if found.data is not None:
            return found.data
    return edit.remove_entries(text, record.created if record else ()).encode() or (None if edit.is_ours else b"")


def _back_up(setting: Setting, data: bytes | None) -> str | None:
    """A copy in corral's own state directory; the oldest ones go."""
    if data is None:
        return None
    kind = record_path(setting.state_dir, setting.provider, setting.home).stem
    directory = Path(setting.state_dir).absolute() / "hooks" / "backups"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = directory / f"{kind}-{stamp}-{time.time_ns() % 10**9:09d}.bak"
    config_file.write_private(path, data)
    record = read_record(setting.state_dir, setting.provider, setting.home)
    for old in sorted(directory.glob(f"{kind}-*.bak"))[:-_BACKUPS_KEPT]:
        if record is None or str(old) != record.backup:
            old.unlink(missing_ok=True)
    return str(path)


def _save_record(
    setting: Setting,
    command: str,
    events: tuple[str, ...],
    digest: str,
    backup: str | None,
    created: tuple[str, ...],
    unbroken_since: float,
) -> None:
    record = Record(
        provider=setting.provider,
        home=setting.home,
        config_path=setting.config_path,
        format=setting.target.format,
        installed_at=time.time(),
        command=command,
        events=events,
        after_sha256=digest,
        backup=backup,
        created=created,
        corral_version=__version__,
        unbroken_since=unbroken_since,
        interpreter_changed_at=last_change(find_interpreter(command) or ""),
    )
    path = record_path(setting.state_dir, setting.provider, setting.home)
    config_file.write_private(path, msgspec.json.format(msgspec.json.encode(record), indent=2))


def _done(setting: Setting, outcome: Outcome, message: str, backup: str | None = None) -> Done:
    return Done(
        provider=setting.provider,
        home=setting.home,
        config_path=setting.config_path,
        outcome=outcome,
        message=message,
        backup=backup,
    )


def _refused(setting: Setting, message: str) -> Done:
    return _done(setting, Outcome.REFUSED, message)
