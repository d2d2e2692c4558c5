"""The hook program on disk, and the command line by which a CLI runs it: both made here, and recognised again."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from corral.hooks.edit.config_file import digest_of, last_change, write_private
from corral.hooks.program import bundle
from corral.sidecar.files import FileBytes, read_regular

PROGRAM_NAME = "corral-hook.py"
"""Entries are known by it: a CLI may rewrite its config without comments, and our data directory may move."""
_MAX_RECORD = 1 << 16


def program_path(data_dir: str) -> str:
    return str(Path(data_dir).absolute() / PROGRAM_NAME)


def base_interpreter() -> str:
    """The Python behind this virtual environment: a checkout may be moved or deleted."""
    found = str(getattr(sys, "_base_executable", "") or sys.executable)
    is_own = sys.prefix != sys.base_prefix and Path(found).is_relative_to(sys.prefix)
    return os.path.realpath(found) if is_own else str(Path(found).absolute())


def hook_command(provider: str, data_dir: str, state_dir: str) -> str:
    """For /bin/sh -c. It prints nothing and succeeds, even if the interpreter or the program has vanished."""
    words = [
        base_interpreter(),
        "-I",
        "-S",
        program_path(data_dir),
        provider,
        str(Path(state_dir).absolute()),
    ]
    return f"{shlex.join(words)} >/dev/null 2>&1 || :"


def is_our_command(command: object) -> bool:
    """Any command that runs a hook program of corral's, wherever it is."""
    if not isinstance(command, str) or PROGRAM_NAME not in command:
        return False
    return any(word.rpartition("/")[2] == PROGRAM_NAME for word in _words(command))


def find_program(command: str) -> str | None:
    """The hook program that a command of ours runs."""
    return next((word for word in _words(command) if word.rpartition("/")[2] == PROGRAM_NAME), None)


def find_interpreter(command: str) -> str | None:
    """The Python that runs it in a command of ours."""
    return next(iter(_words(command)), None)


def find_state_dir(command: str) -> str | None:
    """Where a command of ours makes the hook program write."""
    words = _words(command)
    program = find_program(command)
    return next(iter(words[words.index(program) + 2 :]), None) if program is not None else None


def find_missing_file(command: str) -> str | None:
    """The interpreter or program that a command of ours names and that is not there, or can't be used."""
    for path, use in ((find_interpreter(command), os.X_OK), (find_program(command), os.R_OK)):
        if path is not None and not (Path(path).is_file() and os.access(path, use)):
            return path
    return None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


class ProgramRecord(Struct, frozen=True, kw_only=True):
    """Which file we put there, and since when the program has been there without a gap."""

    schema: int = 1
    path: str
    device: int
    inode: int
    changed_ns: int
    """Its ctime: any other file, and this one after it was away, has another."""
    unbroken_since: float
    """Epoch seconds."""
    sha256: str | None = None
    """Of its bytes; None in records of older versions."""
    successor: tuple[int, int] | None = None
    """Device and inode of the file that is about to replace it, so that one of the two is known at every moment."""


def place_program(data_dir: str, state_dir: str) -> None:
    """Put this version of the program into the data directory, unless it is there. Raises OSError.

    Replacing our own file is not a gap: one of the two is there at every moment. Anything else is a gap until now.
    """
    path = program_path(data_dir)
    now = time.time()
    known, was_unbroken_since = _read_record(state_dir), _unbroken_since(state_dir, path)
    if bundle.find_problem(path) is not None:

        def announce(status: os.stat_result) -> None:
            if known is not None and was_unbroken_since is not None:
                _save(state_dir, structs.replace(known, successor=(status.st_dev, status.st_ino)))

        write_private(Path(path), bundle.build_program(), announce)
    elif known is not None and was_unbroken_since is not None and known.successor is None:
        return
    status = os.stat(path)
    record = ProgramRecord(
        path=path,
        device=status.st_dev,
        inode=status.st_ino,
        changed_ns=status.st_ctime_ns,
        unbroken_since=now if was_unbroken_since is None else was_unbroken_since,
        sha256=_read_digest(path),
    )
    _save(state_dir, record)


def find_unbroken_since(state_dir: str, path: str) -> float | None:
    """Since when the program has been at `path` without a gap, in epoch seconds; None when it is not there.

    A file that we have no record of has been there since its ctime at the latest, and nothing is known of before.
    """
    since = _unbroken_since(state_dir, path)
    return since if since is not None else last_change(path)


def find_fault(state_dir: str, path: str) -> str | None:
    """Why what is at `path` is not the program, in words; None when it is."""
    if _unbroken_since(state_dir, path) is not None:
        return None
    record = _read_record(state_dir)
    if record is not None and record.path == path and record.sha256 is not None:
        return None if _read_digest(path) == record.sha256 else "is not the program that corral put there"
    return None if bundle.is_program(os.path.realpath(path)) else "is not a hook program"


def _unbroken_since(state_dir: str, path: str) -> float | None:
    """What the record says, if it names the file that is there."""
    record = _read_record(state_dir)
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if record is None or record.path != path:
        return None
    is_known = (status.st_dev, status.st_ino, status.st_ctime_ns) == (record.device, record.inode, record.changed_ns)
    return record.unbroken_since if is_known or (status.st_dev, status.st_ino) == record.successor else None


def _read_digest(path: str) -> str | None:
    found = read_regular(os.path.realpath(path), bundle.MAX_BYTES)
    return digest_of(found.data) if isinstance(found, FileBytes) else None


def _save(state_dir: str, record: ProgramRecord) -> None:
    write_private(_record_path(state_dir), msgspec.json.format(msgspec.json.encode(record), indent=2))


def _read_record(state_dir: str) -> ProgramRecord | None:
    found = read_regular(str(_record_path(state_dir)), _MAX_RECORD)
    if not isinstance(found, FileBytes):
        return None
    try:
        record = msgspec.json.decode(found.data, type=ProgramRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record if record.schema == 1 else None


def _record_path(state_dir: str) -> Path:
    return Path(state_dir, "hooks", "program.json")
