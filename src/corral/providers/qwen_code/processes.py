"""Qwen Code as it is installed and run, which running processes are it, and which of them belong to one run."""

from __future__ import annotations

from msgspec import structs

from corral.machine.processes import Process, ProcessTable
from corral.machine.procfs import read_bytes, read_ns_pids
from corral.model.process import ProcessMode, Recognised, ToldByChild
from corral.providers.kit.recognition import Cli, Modes, NodeRun, find_node_run
from corral.providers.qwen_code import reporter
from corral.providers.qwen_code.homes import HOME, NAME, find_home, is_session_id

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

PACKAGE = reporter.PACKAGE
_PROMPTS = frozenset({"-p", "--prompt"})
_ACP = frozenset({"--acp", "--experimental-acp"})
_NOT_AGENTS = frozenset(
    {
        "auth", "board", "extensions", "extension", "hooks", "mcp", "review", "sandbox", "sessions", "update",
        "--version", "-v", "--help", "-h", "--list-extensions", "-l",
    }
)  # fmt: skip
_WITH_VALUE = frozenset(
    {
        "-m", "--model", "--fallback-model", "-i", "--prompt-interactive", "-o", "--output-format",
        "--input-format", "-r", "--resume", "--session-id", "--approval-mode", "--auth-type", "-e", "--extensions",
        "--channel", "--include-directories", "--add-dir", "--allowed-tools", "--system-prompt",
        "--append-system-prompt",
    }
)  # fmt: skip
CLI = Cli(
    name=NAME,
    package=PACKAGE,
    commands=("qwen",),
    home=HOME,
    modes=Modes(
        servers=_ACP | {"serve", "channel"},
        headless=_PROMPTS,
        not_agents=_NOT_AGENTS,
        with_value=_WITH_VALUE,
    ),
    # Node names its main thread, and so the process, "MainThread" since version 24 (seen 2026-11).
    runtimes=frozenset({"node", "nodejs", "MainThread"}),
)
_LEVELS = frozenset({"qwen", "cli-entry.js", "cli.js"})
"""The scripts of one run, by name: the wrapper, and `_CLI`, which it starts. 0.15.10: the command is a link to cli.js,
and both levels keep the command's name."""
_CLI = "cli.js"
_SESSION = b"QWEN_CODE_SESSION_ID="


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """A process of a Qwen agent of ours, or None. All levels of one run are given, with the same `group`.

    qwen 0.24.4 (2026-11): the wrapper (`bin/qwen`) starts `cli.js`, which for the terminal UI and ACP starts
    itself once more; with `-p` it replaces itself. The last level, the youngest, serves. `serve` is the
    wrapper itself, with an ACP child. A `qwen` that a tool runs begins with the wrapper again: that is its
    own run, also where it is a direct child of the process that runs the tool.
    """
    run = _find_run(process)
    mode = _decide_mode(run, process) if run is not None else None
    if run is None or mode is None:
        return None
    found = CLI.recognise(
        process, home=_find_home(process), mode=mode, group=_find_top(process, run, table).pid, version=run.version
    )
    return structs.replace(found, told=_find_told(process, table)) if _is_one_shot(run) else found


def _find_run(process: Process) -> NodeRun | None:
    if not CLI.may_run(process):
        return None
    return find_node_run(process, PACKAGE, lambda path: path.rpartition("/")[2] in _LEVELS)


def _find_top(process: Process, run: NodeRun, table: ProcessTable) -> Process:
    """The first process of the run. If its wrapper was killed, the run's top is what is left of it."""
    for parent in table.ancestors(process):
        above = _find_run(parent)
        if above is None or not _same_run(run, above):
            break
        process, run = parent, above
    return process


def _same_run(below: NodeRun, above: NodeRun) -> bool:
    """Whether a child is a further level of its parent's run, not a `qwen` that the parent's tool started."""
    if below.name == _CLI != above.name:
        return True  # only the wrapper, or the daemon that it became, starts cli.js
    return (below.name == _CLI) == (above.name == _CLI) and below.words == above.words


def _decide_mode(run: NodeRun, process: Process) -> ProcessMode | None:
    """How this Qwen was started, or None when it is not an agent (`qwen mcp`, `qwen sessions ps`, …)."""
    mode = CLI.modes.decide(run.words)
    if mode is not ProcessMode.UNKNOWN:
        return mode
    # Without a terminal it reads its prompt from a pipe or the command line, answers and ends.
    is_asked = process.terminal is None or "stream-json" in run.words
    return ProcessMode.HEADLESS if is_asked else ProcessMode.INTERACTIVE


def _is_one_shot(run: NodeRun) -> bool:
    """Whether it answers one prompt and ends: then it has one session from its start to its end."""
    options = {word.partition("=")[0] for word in run.words}
    streams = any("stream-json" in word for word in run.words)
    return run.name == _CLI and bool(options & _PROMPTS) and not options & _ACP and not streams


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
