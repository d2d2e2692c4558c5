"""Settings that a CLI reads from files: assignments in `.env` files, and JSON with comments."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from corral.sidecar.files import Unreadable, read_regular

T = TypeVar("T")

_LIMIT = 4 << 20
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n\r]*|/\*.*?\*/', re.DOTALL)
_ASSIGNMENT = r"""^\s*(?:export\s+)?{name}(?:\s*=|:\s)[ \t]*(?:"([^"]*)"|'([^']*)'|`([^`]*)`|([^#\r\n]*))"""


def find_in_env_files(name: str, directories: Iterable[str]) -> str | None:
    """A variable's value in the first `.env` file that gives it one. In one file the last assignment counts."""
    assignment = re.compile(_ASSIGNMENT.format(name=re.escape(name)), re.MULTILINE)
    for directory in directories:
        found = assignment.findall(_read_text(f"{directory}/.env") or "")
        if found:
            *quoted, plain = found[-1]
            if value := "".join(quoted) or plain.strip():
                return value
    return None


def read_commented_json(path: str, shape: type[T]) -> T | None:
    """The settings in a JSON file that may have comments; None where there are none of that shape."""
    text = _read_text(path)
    if text is None:
        return None
    try:
        return msgspec.json.decode(_COMMENT.sub(lambda comment: comment[1] or " ", text), type=shape)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def expand_path(path: str, home_dir: str, base: str | None = None) -> str:
    """A path as it is written in a variable or a setting: `~` is the user's home; `base` is the working directory."""
    if path == "~" or path.startswith(("~/", "~\\")):
        path = os.path.join(home_dir, *re.split(r"[/\\]+", path[2:].strip("/\\")))
    return os.path.normpath(os.path.join(base or os.getcwd(), path))


def _read_text(path: str) -> str | None:
    content = read_regular(path, _LIMIT)
    return None if isinstance(content, Unreadable) else content.data.decode("utf-8", "replace").removeprefix("\ufeff")
