"""Which running processes are kimi-code. It hides its command line behind a title; its environment stays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from corral.model.process import ProcessMode, Recognised
from corral.providers.kimi_code.places import HOME_VARIABLE, NAME
from corral.providers.kimi_code.programs import PACKAGE
from corral.system.processes import Process, ProcessTable

if TYPE_CHECKING:
    from corral.system.programs import Installed

_TITLE = "kimi-code"
_SERVERS = frozenset({"acp", "web", "server"})
_HEADLESS = frozenset({"-p", "--prompt"})
_RUNTIMES = ("node", "MainThread", "bun", "kimi")


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """Ours if it has the title, or is node about to take it, whoever runs it."""
    if not _is_mine(process):
        return None
    return Recognised(
        provider=NAME,
        identity=process.identity,
        started_at=process.started_at,
        home=_find_home(process),
        mode=_find_mode(process.arguments),
        group=_find_group(process, table),
        terminal=process.terminal,
        version=_find_version(process),
        work_dir=process.cwd,
    )


def _is_mine(process: Process) -> bool:
    if process.is_kernel or process.state in {"Z", "X"}:
        return False
    # kimi-cli's helpers are titled kimi-code-worker and kimi-code-bg-worker: only the exact name counts.
    if process.comm != _TITLE and process.comm not in _RUNTIMES:
        return False
    if process.comm == _TITLE and process.arguments == (_TITLE,):
        return True
    return _find_script(process) is not None


def _find_script(process: Process) -> str | None:
    """Before the title is set: the real path of kimi-code's script that node was asked to run."""
    for word in process.arguments[1:4]:
        if word.startswith("-"):
            continue
        if not word.startswith("/") or not _may_be_script(word):
            return None
        real = os.path.realpath(word)
        package = _find_npm_package(real)
        if package is None or package.product != PACKAGE:
            return None
        # search-worker.mjs indexes transcripts for another process, and serves no session.
        return None if "worker" in os.path.basename(real) else real
    return None


def _may_be_script(word: str) -> bool:
    return os.path.basename(word) in {"kimi", "kimi-code"} or f"/{PACKAGE}/" in word


def _find_home(process: Process) -> str | None:
    if chosen := process.environ.get(HOME_VARIABLE):
        return chosen if chosen.startswith("/") else None
    if home := process.environ.get("HOME"):
        return f"{home}/.kimi-code"
    return None


def _find_mode(arguments: tuple[str, ...]) -> ProcessMode:
    words = arguments[2:]
    if words and words[0] in _SERVERS:
        return ProcessMode.SERVER
    if _HEADLESS.intersection(words):
        return ProcessMode.HEADLESS
    return ProcessMode.UNKNOWN


def _find_group(process: Process, table: ProcessTable) -> int:
    """The top-most of its launchers that are kimi-code too; a nested run has a shell between."""
    top = process.pid
    for parent in table.ancestors(process):
        if not _is_mine(parent):
            break
        top = parent.pid
    return top


def _find_version(process: Process) -> str | None:
    """From its script while that can be seen, else from an addon of the package that it has mapped."""
    script = _find_script(process)
    paths = (script,) if script else (path for path in process.mapped_files() if f"/{PACKAGE}/" in path)
    for path in paths:
        package = _find_npm_package(path)
        if package is not None and package.product == PACKAGE:
            return package.version
    return None


def _find_npm_package(path: str) -> Installed | None:
    from corral.system.programs import find_npm_package

    return find_npm_package(path)
