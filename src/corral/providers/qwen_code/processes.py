"""Which running processes are Qwen Code, and which of them belong to one run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from corral.model.process import ProcessMode, Recognised, ToldByChild
from corral.providers.qwen_code.homes import NAME, find_home
from corral.providers.qwen_code.places import is_session_id
from corral.system.processes import Process, ProcessTable
from corral.system.procfs import read_bytes, read_ns_pids

CHILD_VARIABLES = (
    "QWEN_CODE",
    "QWEN_CODE_AGENT_ID",
    "QWEN_CODE_LAUNCHER_PID",
    "QWEN_CODE_MESSAGING_SOCKET",
    "QWEN_CODE_MESSAGING_TOKEN",
    "QWEN_CODE_NO_RELAUNCH",
    "QWEN_CODE_PROJECT_DIR",
    "QWEN_CODE_PROMPT_ID",
    "QWEN_CODE_SESSION_ID",
)
"""What the shells and hooks of a running Qwen inherit: a Qwen started from there must not take them for its own."""

PACKAGE = "@qwen-code/qwen-code"

# Node names its main thread, and so the process, "MainThread" since version 24 (seen 2026-11).
_INTERPRETERS = frozenset({"node", "nodejs", "MainThread"})
_NODE_OPTIONS_WITH_VALUE = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader", "-C"})
_NO_SCRIPT = frozenset({"-e", "--eval", "-p", "--print", "-pe"})
_ENTRIES = frozenset({"qwen", "cli-entry.js"})
_CLI = "cli.js"

_SESSION = b"QWEN_CODE_SESSION_ID="

_NOT_AGENTS = frozenset(
    {"auth", "board", "extensions", "extension", "hooks", "mcp", "review", "sandbox", "sessions", "update"}
)
_SERVERS = frozenset({"serve", "channel"})
_ACP = frozenset({"--acp", "--experimental-acp"})
_PROMPTS = frozenset({"-p", "--prompt"})
_INFORMS = frozenset({"--version", "-v", "--help", "-h", "--list-extensions", "-l"})
_OPTIONS_WITH_VALUE = frozenset(
    {
        "-m", "--model", "--fallback-model", "-i", "--prompt-interactive", "-o", "--output-format",
        "--input-format", "-r", "--resume", "--session-id", "--approval-mode", "--auth-type", "-e",
        "--extensions", "--channel", "--include-directories", "--add-dir", "--allowed-tools",
        "--system-prompt", "--append-system-prompt",
    }
)  # fmt: skip


class _Invocation(Struct, frozen=True):
    """A command line of Qwen: which of its files Node runs, and the words after it."""

    is_cli: bool
    """The bundled CLI itself, not the wrapper that starts it."""
    words: tuple[str, ...]
    version: str | None


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """A process of a Qwen agent of ours, or None. All levels of one run are given, with the same `group`.

    qwen 0.24.4 (2026-11): the wrapper (`bin/qwen`) starts `cli.js`, which for the terminal UI and ACP starts
    itself once more; with `-p` it replaces itself. The last level, the youngest, serves. `serve` is the
    wrapper itself, with an ACP child. A `qwen` that a tool runs begins with the wrapper again: that is its
    own run, also where it is a direct child of the process that runs the tool.
    """
    invocation = _find_invocation(process)
    if invocation is None:
        return None
    mode = _tell_mode(invocation.words, process.terminal is not None)
    if mode is None:
        return None
    return Recognised(
        provider=NAME,
        identity=process.identity,
        started_at=process.started_at,
        home=_find_home(process),
        mode=mode,
        group=_find_top(process, invocation, table).pid,
        terminal=process.terminal,
        version=invocation.version,
        work_dir=process.cwd,
        told=_find_told(process, table) if _is_one_shot(invocation) else None,
    )


def _find_invocation(process: Process) -> _Invocation | None:
    if process.comm not in _INTERPRETERS or process.state == "Z":
        return None
    words = process.arguments[1:]
    position = 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] in _NO_SCRIPT:
            return None
        position += 2 if words[position] in _NODE_OPTIONS_WITH_VALUE else 1
    if position >= len(words):
        return None
    script, rest = words[position], words[position + 1 :]
    name = script.rpartition("/")[2]
    if name != _CLI and name not in _ENTRIES:
        return None
    path = os.path.realpath(os.path.join(process.cwd or "/", script))
    from corral.system.programs import find_npm_package

    installed = find_npm_package(path)
    # An update removes the package under a running process: then its path has to do.
    is_qwen = installed.product == PACKAGE if installed else f"/{PACKAGE}/" in path
    if not is_qwen:
        return None
    # 0.15.10: the command is a link to cli.js, and both levels keep the command's name.
    return _Invocation(name == _CLI, rest, installed.version if installed else None)


def _find_top(process: Process, invocation: _Invocation, table: ProcessTable) -> Process:
    """The first process of the run. If its wrapper was killed, the run's top is what is left of it."""
    for parent in table.ancestors(process):
        above = _find_invocation(parent)
        if above is None or not _same_run(invocation, above):
            break
        process, invocation = parent, above
    return process


def _same_run(below: _Invocation, above: _Invocation) -> bool:
    """Whether a child is a further level of its parent's run, not a `qwen` that the parent's tool started."""
    if below.is_cli and not above.is_cli:
        return True  # only the wrapper, or the daemon that it became, starts cli.js
    return below.is_cli == above.is_cli and below.words == above.words


def _tell_mode(words: Sequence[str], has_terminal: bool) -> ProcessMode | None:
    """How this Qwen was started, or None when it is not an agent (`qwen mcp`, `qwen sessions ps`, …)."""
    end = words.index("--") if "--" in words else len(words)
    options = {word.partition("=")[0] for word in words[:end]}
    command = _find_command(words)
    if command in _SERVERS or options & _ACP:
        return ProcessMode.SERVER
    if command in _NOT_AGENTS or options & _INFORMS:
        return None
    if options & _PROMPTS or "stream-json" in words:
        return ProcessMode.HEADLESS
    # Without a terminal it reads its prompt from a pipe or the command line, answers and ends.
    return ProcessMode.INTERACTIVE if has_terminal else ProcessMode.HEADLESS


def _find_command(words: Sequence[str]) -> str | None:
    """The first word that is neither an option nor an option's value."""
    position = 0
    while position < len(words):
        word = words[position]
        if word in _PROMPTS:
            return None
        if not word.startswith("-"):
            return word
        position += 2 if word in _OPTIONS_WITH_VALUE else 1
    return None


def _is_one_shot(invocation: _Invocation) -> bool:
    """Whether it answers one prompt and ends: then it has one session from its start to its end."""
    options = {word.partition("=")[0] for word in invocation.words}
    streams = any("stream-json" in word for word in invocation.words)
    return invocation.is_cli and bool(options & _PROMPTS) and not options & _ACP and not streams


def _find_told(process: Process, table: ProcessTable) -> ToldByChild | None:
    """What the shells of its tools were given as the session's id; None while it runs none.

    qwen 0.24.4 (2026-11): a tool is a direct child with QWEN_CODE=1. A `qwen` that was itself started by a tool has
    inherited the id of the session around it, and so have its servers and levels: that is not its own.
    """
    inherited = _read_session(process)
    told = [
        (child, session_id)
        for child in table.children(process.pid)
        if child.start_ticks >= process.start_ticks
        and (session_id := _read_session(child, as_tool=True)) is not None
        and session_id != inherited
    ]
    numbers = read_ns_pids(process.pid)
    if len({session_id for _, session_id in told}) != 1 or not numbers or process.has_ended():
        return None
    child, session_id = told[0]
    return ToldByChild(numbers[-1], child.pid, session_id, child.started_at)


def _read_session(process: Process, *, as_tool: bool = False) -> str | None:
    """The session in its environment. There is a secret among the rest, which is neither decoded nor kept."""
    words = (read_bytes(process.pid, "environ") or b"").split(b"\0")
    if as_tool and b"QWEN_CODE=1" not in words:
        return None
    found = next((word for word in words if word.startswith(_SESSION)), b"")
    session_id = found.removeprefix(_SESSION).decode("ascii", "replace")
    return session_id if is_session_id(session_id) else None


def _find_home(process: Process) -> str | None:
    environ = process.environ
    home_dir = environ.get("HOME")
    if not environ or (not home_dir and not environ.get("QWEN_HOME")):
        return None
    return find_home(environ, home_dir or "", process.cwd)[0]
