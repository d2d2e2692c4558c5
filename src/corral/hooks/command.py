"""The command line that a CLI runs as our hook: how it is made, and how it is recognised again."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

PROGRAM_NAME = "corral-hook.py"
"""Entries are known by it: a CLI may rewrite its config without comments, and our data directory may move."""


def program_path(data_dir: str) -> str:
    return str(Path(data_dir).absolute() / PROGRAM_NAME)


def base_interpreter() -> str:
    """The Python behind this virtual environment: a checkout may be moved or deleted."""
    found = str(getattr(sys, "_base_executable", "") or sys.executable)
    is_own = sys.prefix != sys.base_prefix and Path(found).is_relative_to(sys.prefix)
    return os.path.realpath(found) if is_own else str(Path(found).absolute())


def hook_command(provider: str, data_dir: str, state_dir: str) -> str:
    """For /bin/sh -c. It says nothing and succeeds, also when the interpreter or the program has vanished."""
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
    """Any command that runs a hook program of corral's, wherever that lies."""
    if not isinstance(command, str) or PROGRAM_NAME not in command:
        return False
    return any(word.rpartition("/")[2] == PROGRAM_NAME for word in _words(command))


def find_program(command: str) -> str | None:
    """The hook program that a command of ours runs."""
    return next((word for word in _words(command) if word.rpartition("/")[2] == PROGRAM_NAME), None)


def find_interpreter(command: str) -> str | None:
    """The Python that a command of ours runs it by."""
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
