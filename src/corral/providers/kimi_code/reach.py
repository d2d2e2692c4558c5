"""What a kimi-code that says nothing could have open: the sessions of its directory, unless it is a server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from corral.machine.processes import Process, identify
from corral.model.process import WHOLE_HOME, Reach
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.sidecar.files import FileBytes, read_regular

_LARGEST = 4 << 20


class _Workspace(Struct):
    root: str
    last_opened_at: str


class _Workspaces(Struct):
    workspaces: dict[str, _Workspace]


_WORKSPACES = ForeignDecoder(_Workspaces)


def find_reach(process: Process, home: str) -> Reach:
    """Its terminal UI opens sessions of its own work directory only.

    kimi 2.1.0: both `-r` and its list refuse those of other directories (2026-11). `acp` and `web` open any, and
    need no terminal, or listen. A session keeps the path that its directory had when it was opened: one that was
    renamed since is known by the path that the shell gave, or by the list of those that were opened and are gone.
    """
    if process.is_on_terminal is not True or process.listens is not False or process.cwd_id is None:
        return WHOLE_HOME
    opened = tuple(root for root in _list_opened(f"{home}/workspaces.json", process.started_at) if not _exists(root))
    started_in = process.environ.get("PWD", "")
    paths = (*opened, started_in) if started_in.startswith("/") else opened
    return Reach(directories=(process.cwd_id,), paths=paths, renamed=not paths)


def _exists(directory: str) -> bool:
    return identify(directory) is not None


def _list_opened(path: str, since: float) -> Iterator[str]:
    """The directories that some kimi-code has opened since then."""
    found = read_regular(path, _LARGEST)
    listed = _WORKSPACES.decode(found.data) if isinstance(found, FileBytes) else None
    for workspace in listed.workspaces.values() if listed else ():
        try:
            opened_at = datetime.fromisoformat(workspace.last_opened_at).timestamp()
        except ValueError:
            continue
        if opened_at >= since:
            yield workspace.root
