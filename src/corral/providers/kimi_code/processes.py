"""kimi-code as it is installed and run, which running processes are it, and what those could have open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from corral.machine.processes import Process, ProcessTable, identify
from corral.model.process import WHOLE_HOME, ProcessMode, Reach, Recognised
from corral.providers.kimi_code import reporter
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.homes import HomePlace
from corral.providers.kit.recognition import Cli, Modes, NodeRun, find_node_run, find_top
from corral.sidecar.files import FileBytes, read_regular

NAME, PACKAGE = reporter.name, reporter.PACKAGE
HOME = HomePlace(NAME, *reporter.HOME)
CLI = Cli(
    name=NAME,
    package=PACKAGE,
    commands=("kimi", "kimi-code"),
    home=HOME,
    modes=Modes(servers=frozenset({"acp", "web", "server"}), headless=frozenset({"-p", "--prompt"})),
    # kimi-cli's helpers are titled kimi-code-worker and kimi-code-bg-worker: only the exact name counts.
    runtimes=frozenset({"kimi-code", "node", "MainThread", "bun", "kimi"}),
)


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """Ours if it has the title, which hides its command line and not its environment, or is Node about to take it."""
    if not _is_mine(process):
        return None
    run = _find_run(process)
    mode = (CLI.modes.decide(run.words) if run else None) or ProcessMode.UNKNOWN
    group, version = find_top(process, table, _is_mine), run.version if run else _find_mapped_version(process)
    return CLI.recognise(process, home=HOME.find_of(process), mode=mode, group=group, version=version)


def _is_mine(process: Process) -> bool:
    if not CLI.may_run(process):
        return False
    return process.arguments == (process.comm,) == (NAME,) or _find_run(process) is not None


def _find_run(process: Process) -> NodeRun | None:
    """Before the title is set: kimi-code's script that Node was asked to run."""
    run = find_node_run(process, PACKAGE, _may_be_script)
    # search-worker.mjs indexes transcripts for another process, and serves no session.
    return run if run is not None and "worker" not in os.path.basename(run.script) else None


def _may_be_script(path: str) -> bool:
    return os.path.basename(path) in CLI.commands or f"/{PACKAGE}/" in path


def _find_mapped_version(process: Process) -> str | None:
    """From an addon of the package that it has mapped."""
    from corral.providers.kit.programs import find_npm_package

    for path in process.mapped_files():
        if f"/{PACKAGE}/" in path and (package := find_npm_package(path)) and package.product == PACKAGE:
            return package.version
    return None


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
    roots = _list_opened(f"{home}/workspaces.json", process.started_at)
    opened = tuple(root for root in roots if identify(root) is None)
    started_in = process.environ.get("PWD", "")
    paths = (*opened, started_in) if started_in.startswith("/") else opened
    return Reach(directories=(process.cwd_id,), paths=paths, renamed=not paths)


def _list_opened(path: str, since: float) -> Iterator[str]:
    """The directories that some kimi-code has opened since then."""
    found = read_regular(path, 4 << 20)
    listed = _WORKSPACES.decode(found.data) if isinstance(found, FileBytes) else None
    for workspace in listed.workspaces.values() if listed else ():
        try:
            opened_at = datetime.fromisoformat(workspace.last_opened_at).timestamp()
        except ValueError:
            continue
        if opened_at >= since:
            yield workspace.root
