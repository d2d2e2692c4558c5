"""Codex CLI as it is installed and run, and which running processes are it."""

from __future__ import annotations

import os
import re

from corral.machine.processes import Process, ProcessTable
from corral.model.process import NOTHING, WHOLE_HOME, ProcessMode, Reach, Recognised
from corral.providers.kit.homes import HomePlace
from corral.providers.kit.recognition import Cli, Modes, find_node_run, find_top

NAME = "codex"
HOME = HomePlace(NAME, "CODEX_HOME", ".codex")
# codex 0.166.0, by its --help (2026-11)
_NOT_AGENTS = frozenset(
    {
        "login", "logout", "mcp", "plugin", "remote-control", "completion", "update", "doctor", "sandbox", "debug",
        "apply", "a", "queue", "archive", "delete", "unarchive", "migrate-rollouts", "help", "cloud",
        "migrate-nfs-db", "exec-server", "features", "--help", "-h", "--version", "-V",
    }
)  # fmt: skip
_WITH_VALUE = frozenset(
    {
        "-c", "--config", "--enable", "--disable", "--remote", "--remote-auth-token-env", "-i", "--image", "-m",
        "--model", "--local-provider", "-p", "--profile", "-s", "--sandbox", "-C", "--cd", "--add-dir", "-a",
        "--ask-for-approval",
    }
)  # fmt: skip
CLI = Cli(
    name=NAME,
    package="@openai/codex",
    commands=("codex",),
    home=HOME,
    modes=Modes(
        servers=frozenset({"app-server", "mcp-server"}),
        not_agents=_NOT_AGENTS,
        with_value=_WITH_VALUE,
    ),
    # Of a release without npm the name has the platform in it, which the kernel cuts. Node names its main thread, and
    # so the process, "MainThread" since version 24 (seen 2026-11).
    runtimes=frozenset({"codex", "codex-x86_64-un", "codex-aarch64-u", "node", "nodejs", "MainThread"}),
)
_NODES = frozenset({"node", "nodejs", "MainThread"})
_PROGRAM = re.compile(r"codex(-(x86_64|aarch64)-[\w-]+)?(?: \(deleted\))?\Z")
_HEADLESS = frozenset({"exec", "e", "review"})
_DAEMON_TOOLS = frozenset({"daemon", "proxy", "generate-ts", "generate-json-schema"})
"""What follows `app-server` where no server runs."""
_BY_ITSELF = frozenset({"--no-daemon", "--dangerously-bypass-hook-trust"})
"""With these a window serves its threads itself (0.166.0, 2026-11)."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def is_thread_id(name: str) -> bool:
    """Of anything else `codex exec resume` starts a new thread, without a word (0.166.0, 2026-11)."""
    return _UUID.match(name) is not None


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """A process of Codex that can have threads, or a window of one that has.

    Node's wrapper is replaced by the program since Node 24, and is its parent before. The shared daemon is a child of
    the window that started it until that ends, and no part of its run (0.166.0, 2026-11).
    """
    words = _find_words(process)
    mode = _decide_mode(words) if words is not None else None
    if words is None or mode is None:
        return None
    group = process.pid if mode is ProcessMode.SERVER else find_top(process, table, lambda one: _is_level(one, words))
    return CLI.recognise(process, home=HOME.find_of(process), mode=mode, group=group, version=_find_version(process))


def find_reach(process: Process, home: str) -> Reach:
    """What it may be about to open, before it has the lock: a fresh thread, or the one that it was told to resume."""
    words = _find_words(process) or ()
    mode = _decide_mode(words)
    if mode not in (ProcessMode.INTERACTIVE, ProcessMode.HEADLESS) or not {"resume", "fork"}.intersection(words):
        return NOTHING if mode is not None else WHOLE_HOME
    ids = tuple(word for word in words if is_thread_id(word))
    return Reach(directories=(), ids=ids, renamed=False) if ids else WHOLE_HOME


def _find_words(process: Process) -> tuple[str, ...] | None:
    """What follows its name; None when it is not Codex."""
    if not CLI.may_run(process):
        return None
    if process.comm in _NODES:
        run = find_node_run(process, CLI.package, lambda path: os.path.basename(path) in ("codex", "codex.js"))
        return run.words if run is not None else None
    program = process.program
    # Of another user's process only the name is shown.
    if program is not None and not _PROGRAM.match(os.path.basename(program)):
        return None
    return process.arguments[1:]


def _is_level(process: Process, words: tuple[str, ...]) -> bool:
    """Whether it is the wrapper of that very run: a `codex` that a tool of Codex starts is a run of its own."""
    return process.comm in _NODES and _find_words(process) == words


def _decide_mode(words: tuple[str, ...]) -> ProcessMode | None:
    """How it was started; None when it can have no thread."""
    command = CLI.modes.find_command(words)
    if command in _HEADLESS:
        return ProcessMode.HEADLESS
    decided = CLI.modes.decide(words)
    if decided is ProcessMode.SERVER:
        return None if _DAEMON_TOOLS.intersection(words) else decided
    if decided is None:
        return None
    # What serves itself without such a word has a lock, and is known by that.
    return ProcessMode.INTERACTIVE if _BY_ITSELF.intersection(words) else ProcessMode.CLIENT


def _find_version(process: Process) -> str | None:
    from corral.providers.kit.programs import find_npm_package

    package = find_npm_package(process.program or "/")
    # "0.166.0-linux-x64": the package of one platform.
    return package.version.partition("-")[0] if package is not None and package.product == CLI.package else None
