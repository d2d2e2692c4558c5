"""Claude Code as it is installed and run, and which running processes are it."""

from __future__ import annotations

import os
import re

from corral.machine.processes import Process, ProcessTable
from corral.model.process import ProcessMode, Recognised
from corral.providers.kit.homes import HomePlace
from corral.providers.kit.programs import find_npm_package, version_tuple
from corral.providers.kit.recognition import Cli, Modes, NodeRun, find_node_run

NAME = "claude-code"
PACKAGE = "@anthropic-ai/claude-code"
HOME = HomePlace(NAME, "CLAUDE_CONFIG_DIR", ".claude")
PROVEN = "2.1.325"
CHILD_VARIABLES = (
    "AI_AGENT", "CLAUDECODE", "CLAUDE_BG_BACKEND", "CLAUDE_BG_SOCKET_TOKENS_PATH", "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_KIND", "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE", "CLAUDE_JOB_DIR", "CLAUDE_PID", "CLAUDE_PROJECT_DIR",
)  # fmt: skip
"""What its shells, hooks and jobs inherit. 2.1.325: one that is started with CLAUDE_CODE_CHILD_SESSION keeps neither
transcript nor registry record (2026-11)."""

_WITH_VALUE = frozenset(
    {
        "--add-dir", "--agent", "--agents", "--allowedTools", "--allowed-tools", "--append-system-prompt",
        "--autocompact", "--betas", "--debug-file", "--disallowedTools", "--disallowed-tools", "--effort",
        "--environment", "--fallback-model", "--file", "--input-format", "--json-schema", "--max-budget-usd",
        "--mcp-config", "--model", "-n", "--name", "--output-format", "--permission-mode", "--permission-prompts",
        "--plugin-dir", "--plugin-url", "-r", "--resume", "--session-id", "--setting-sources", "--settings",
        "--system-prompt", "--system-prompt-snapshot", "--tools", "-w", "--worktree",
    }
)  # fmt: skip
_NOT_AGENTS = frozenset(
    {
        # `--bg` hands over to a service and ends. Of the service, `--bg-pty-host` only keeps a terminal.
        "daemon", "--bg", "--background", "--bg-pty-host",
        "agents", "auth", "auto-mode", "doctor", "gateway", "import", "install", "logs", "mcp", "plugin", "plugins",
        "purge", "respawn", "rm", "setup-token", "stop", "kill", "ultrareview", "update", "upgrade",
        "-h", "--help", "-v", "--version",
    }
)  # fmt: skip
_CLIENT = "attach"
"""Shows a background session, which another process serves."""
_JOB = "--bg-spare"
"""A process that the service keeps ready, and that stays the same once a background session was given to it."""
CLI = Cli(
    name=NAME,
    package=PACKAGE,
    commands=("claude",),
    home=HOME,
    modes=Modes(
        headless=frozenset({"-p", "--print"}),
        not_agents=_NOT_AGENTS,
        with_value=_WITH_VALUE,
    ),
    # 2.1.325: "claude" where it was started by its link, else the name of its file (2026-11).
    runtimes=frozenset({"claude", "claude.exe", "node", "MainThread"}),
)
_WRAPPER = "cli-wrapper.cjs"
_PROGRAMS = frozenset({"claude", "claude.exe"})
_VERSIONED = re.compile(r"/claude/versions/([0-9][0-9.]*)\Z")
"""The file of an installation by Claude's own installer."""


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """A process of a Claude agent of ours, or None. The wrapper of an npm installation is a level of its child's run.

    2.1.325 (2026-11): npm's command is the program itself, one process; without npm's install script it is Node with
    a wrapper, and the program its child.
    """
    if not CLI.may_run(process):
        return None
    if (wrapper := _find_wrapper(process)) is not None:
        words, version, group = wrapper.words, wrapper.version, process.pid
    elif _is_program(process):
        words, version = process.arguments[1:], _find_version(process)
        parent = table.find(process.parent_pid)
        group = parent.pid if parent is not None and _find_wrapper(parent) is not None else process.pid
    else:
        return None
    if (mode := _decide_mode(words, process, version)) is None:
        return None
    return CLI.recognise(process, home=HOME.find_of(process), mode=mode, group=group, version=version)


def _find_wrapper(process: Process) -> NodeRun | None:
    if process.comm in _PROGRAMS or not CLI.may_run(process):
        return None
    run = find_node_run(process, PACKAGE, lambda path: path.endswith((_WRAPPER, "/claude")))
    return run if run is not None and run.script.endswith(_WRAPPER) else None


def _is_program(process: Process) -> bool:
    """By the names of the process and its file. The same file under another first word is one of its search tools."""
    if process.comm not in _PROGRAMS:
        return False
    called = os.path.basename(process.arguments[0]) if process.arguments else "claude"
    program = (process.program or "claude").removesuffix(" (deleted)")
    # Older versions are scripts that Node runs, and set the name of the process (read, 2026-11).
    is_file = os.path.basename(program) in _PROGRAMS | {"node", "bun"} or _VERSIONED.search(program) is not None
    return is_file and (called.startswith("claude") or called == os.path.basename(program))


def _find_version(process: Process) -> str | None:
    """None when an update has replaced its file, or its files do not say."""
    program = process.program or ""
    if versioned := _VERSIONED.search(program):
        return versioned[1]
    package = find_npm_package(program) if os.path.basename(program) in _PROGRAMS else None
    return package.version if package and package.product.startswith(PACKAGE) else None


def _decide_mode(words: tuple[str, ...], process: Process, version: str | None) -> ProcessMode | None:
    """How it was started; unknown where its version was not shown to name each of its processes in the registry."""
    if CLI.modes.find_command(words) == _CLIENT:
        return ProcessMode.CLIENT
    mode = CLI.modes.decide(words)
    if mode is None:
        return None
    if version is None or version_tuple(version) < version_tuple(PROVEN):
        return ProcessMode.UNKNOWN
    if mode is ProcessMode.HEADLESS:
        return mode
    # Without a terminal it prints an answer and ends, as with `-p`.
    return ProcessMode.INTERACTIVE if process.terminal or _JOB in words else ProcessMode.HEADLESS
