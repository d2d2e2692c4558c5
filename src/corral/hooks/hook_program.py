"""The hook program on disk: put in its place whole, and known again, so that nobody takes a gap for none."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.hooks import bundle
from corral.hooks.command import program_path
from corral.hooks.config_file import write_private
from corral.sidecar.files import FileBytes, read_regular

_MAX_RECORD = 1 << 16


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


def place_program(data_dir: str, state_dir: str) -> None:
    """Put this version of the program into the data directory, unless it is there. Raises OSError.

    Replacing our own file is no gap: at every moment one of the two was there. Anything else is, until now.
    """
    path = program_path(data_dir)
    now = time.time()
    was_unbroken_since = _unbroken_since(state_dir, path)
    if bundle.find_problem(path) is not None:
        write_private(Path(path), bundle.build_program())
    elif was_unbroken_since is not None:
        return
    status = os.stat(path)
    record = ProgramRecord(
        path=path,
        device=status.st_dev,
        inode=status.st_ino,
        changed_ns=status.st_ctime_ns,
        unbroken_since=now if was_unbroken_since is None else was_unbroken_since,
    )
    write_private(_record_path(state_dir), msgspec.json.format(msgspec.json.encode(record), indent=2))


def find_unbroken_since(state_dir: str, path: str) -> float | None:
    """Since when the program has been at `path` without a gap, in epoch seconds; None when it is not there.

    A file that we have no record of has been there since its ctime at the latest, and nothing is known of before.
    """
    since = _unbroken_since(state_dir, path)
    if since is not None:
        return since
    try:
        return os.stat(path).st_ctime
    except OSError:
        return None


def _unbroken_since(state_dir: str, path: str) -> float | None:
    """What the record says, if it names the file that is there."""
    record = _read_record(state_dir)
    try:
        status = os.stat(path)
    except OSError:
        return None
    if record is None or record.path != path:
        return None
    there = (status.st_dev, status.st_ino, status.st_ctime_ns)
    return record.unbroken_since if there == (record.device, record.inode, record.changed_ns) else None


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
