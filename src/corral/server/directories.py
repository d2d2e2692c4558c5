"""Directories to start in: those that a prefix can become, and those used last. Names only, never a file's content."""

from __future__ import annotations

import os
from collections.abc import Iterable

from corral.server.messages import Directories

_MOST = 50
_MOST_LOOKED_AT = 5000


def list_directories(prefix: str, recent: Iterable[str]) -> Directories:
    """`prefix` is an absolute path, or begins with ~; its last part need not be complete."""
    used = list(dict.fromkeys(recent))[: 4 * _MOST]
    return Directories(
        directories=tuple(_below(os.path.expanduser(prefix))) if prefix else (),
        recent=tuple(path for path in used if os.path.isdir(path))[:_MOST],
    )


def _below(prefix: str) -> list[str]:
    if not os.path.isabs(prefix) or "\0" in prefix:
        return []
    parent, begin = os.path.split(prefix)
    found: list[str] = []
    try:
        with os.scandir(parent) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_LOOKED_AT:
                    break
                hidden = entry.name.startswith(".") and not begin.startswith(".")
                if entry.name.startswith(begin) and not hidden and entry.is_dir():
                    found.append(entry.path)
    except OSError:
        return []  # not there, or not for us: nothing to offer
    return sorted(found)[:_MOST]
