"""Why a program could not be started, in words. The kernel names neither the cause nor always the right file.

Part of the holder: standard library only.
"""

from __future__ import annotations

import errno
import os

_FIRST_LINE = 256


def say_not_begun(number: int, program: str, cwd: str, *, in_directory: bool) -> str:
    """`number` is the errno; `in_directory`: it came from entering `cwd`, and not from the program."""
    if in_directory:
        return _say_directory(number, cwd)
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return _say_missing(program)
        case errno.EACCES if os.path.isdir(program):
            return f"{program} is a directory, not a program"
        case errno.EACCES | errno.EPERM:
            return f"{program} may not be run: permission is missing"
        case errno.ENOEXEC:
            return f"{program} is no program that this machine can run"
        case errno.ETXTBSY:
            return f"{program} is being written at this moment"
        case errno.E2BIG:
            return f"{program} can't be started: its arguments and its environment are too long"
        case _:
            return f"{program} can't be started: {os.strerror(number)}"


def _say_directory(number: int, cwd: str) -> str:
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return f"the directory in which it would run is gone: {cwd}"
        case errno.EACCES | errno.EPERM:
            return f"the directory in which it would run may not be entered: {cwd}"
        case _:
            return f"the directory in which it would run can't be entered: {cwd}: {os.strerror(number)}"


def _say_missing(program: str) -> str:
    """A file that is there can be missing something: a script its interpreter, a binary its loader."""
    if not os.path.lexists(program):
        return f"there is no program {program}"
    if not os.path.exists(program):
        return f"{program} is a link to {os.path.realpath(program)}, which is not there"
    interpreter = _read_interpreter(program)
    if interpreter is not None:
        return f"{program} is a script for {interpreter}, which is not there"
    return f"{program} needs a loader that is not on this machine"


def _read_interpreter(program: str) -> str | None:
    try:
        with open(program, "rb") as file:
            line = file.readline(_FIRST_LINE)
    except OSError:
        return None
    words = line[2:].split(None, 1) if line.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else None
