"""kimi-code as it is installed and run, and which running processes are it."""

from __future__ import annotations

import os

from corral.machine.processes import Process, ProcessTable
from corral.model.process import ProcessMode, Recognised
from corral.providers.kimi_code import reporter
from corral.providers.kit.homes import HomePlace
from corral.providers.kit.recognition import Cli, Modes, NodeRun, find_node_run, find_top

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
