"""Qwen Code as it runs: which processes are its own, which belong to one run, and what its registry says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, structs

from corral.machine.processes import Process, ProcessTable
from corral.model.claim import BadClaim, Claim
from corral.model.key import Home
from corral.model.process import ProcessMode, Recognised
from corral.providers.kit.pid_registry import Registered, list_registered
from corral.providers.kit.recognition import Cli, Modes, NodeRun, find_node_run
from corral.providers.kit.told_by_child import ToolEnvironment
from corral.providers.qwen_code import reporter
from corral.providers.qwen_code.homes import HOME, NAME, find_home, is_session_id

CHILD_VARIABLES = (
    "QWEN_CODE", "QWEN_CODE_AGENT_ID", "QWEN_CODE_LAUNCHER_PID", "QWEN_CODE_MESSAGING_SOCKET",
    "QWEN_CODE_MESSAGING_TOKEN", "QWEN_CODE_NO_RELAUNCH", "QWEN_CODE_PROJECT_DIR", "QWEN_CODE_PROMPT_ID",
    "QWEN_CODE_SESSION_ID",
)  # fmt: skip
"""What the shells and hooks of a running Qwen inherit: a Qwen started from there must not take them for its own."""

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
    package=reporter.PACKAGE,
    commands=("qwen",),
    home=HOME,
    modes=Modes(servers=_ACP | {"serve", "channel"}, headless=_PROMPTS, not_agents=_NOT_AGENTS, with_value=_WITH_VALUE),
    # Node names its main thread, and so the process, "MainThread" since version 24 (seen 2026-11).
    runtimes=frozenset({"node", "nodejs", "MainThread"}),
)
_LEVELS = frozenset({"qwen", "cli-entry.js", "cli.js"})
"""The scripts of one run, by name: the wrapper, and `_CLI`, which it starts. In 0.15.10 the command is a link to
cli.js, and both levels keep the command's name."""
_CLI = "cli.js"
# qwen 0.24.4 (2026-11): a tool is a direct child with QWEN_CODE=1.
_TOOLS = ToolEnvironment(b"QWEN_CODE=1", b"QWEN_CODE_SESSION_ID=", is_session_id)
_START = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):([0-9]{1,19})\Z")


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """A process of a Qwen agent, or None. All levels of one run are given, with the same `group`.

    qwen 0.24.4 (2026-11): the wrapper (`bin/qwen`) starts `cli.js`, which starts itself once more for the terminal
    UI and ACP, and replaces itself with `-p`. The last level, the youngest, serves. `serve` is the wrapper itself,
    with an ACP child. A `qwen` that a tool runs begins with the wrapper again: that is a run of its own, also
    where it is a direct child of the process that runs the tool.
    """
    run = _find_run(process)
    mode = _decide_mode(run, process) if run is not None else None
    if run is None or mode is None:
        return None
    found = CLI.recognise(
        process, home=_find_home(process), mode=mode, group=_find_top(process, run, table).pid, version=run.version
    )
    return structs.replace(found, told=_TOOLS.find_told(process, table)) if _is_one_shot(run) else found


def _find_run(process: Process) -> NodeRun | None:
    if not CLI.may_run(process):
        return None
    return find_node_run(process, CLI.package, lambda path: path.rpartition("/")[2] in _LEVELS)


def _find_top(process: Process, run: NodeRun, table: ProcessTable) -> Process:
    """The first process of the run, or of what is left of it when its wrapper was killed."""
    for parent in table.ancestors(process):
        above = _find_run(parent)
        if above is None or not _is_same_run(run, above):
            break
        process, run = parent, above
    return process


def _is_same_run(below: NodeRun, above: NodeRun) -> bool:
    """Whether a child is a further level of its parent's run, not a `qwen` that the parent's tool started."""
    if below.name == _CLI != above.name:
        return True  # only the wrapper, or the daemon that it became, starts cli.js
    return (below.name == _CLI) == (above.name == _CLI) and below.words == above.words


def _decide_mode(run: NodeRun, process: Process) -> ProcessMode | None:
    """How this Qwen was started; None when it is not an agent (`qwen mcp`, `qwen sessions ps`, …)."""
    mode = CLI.modes.decide(run.words)
    if mode is not ProcessMode.UNKNOWN:
        return mode
    # Without a terminal it reads its prompt from a pipe or the command line, answers and ends.
    is_asked = process.terminal is None or "stream-json" in run.words
    return ProcessMode.HEADLESS if is_asked else ProcessMode.INTERACTIVE


def _is_one_shot(run: NodeRun) -> bool:
    """Whether it answers one prompt and ends: then it has one session from start to end."""
    options = {word.partition("=")[0] for word in run.words}
    streams = any("stream-json" in word for word in run.words)
    return run.name == _CLI and bool(options & _PROMPTS) and not options & _ACP and not streams


def _find_home(process: Process) -> str | None:
    environ = process.environ
    home_dir = environ.get("HOME")
    if not environ or (not home_dir and not environ.get(HOME.variable)):
        return None
    return find_home(environ, home_dir or "", process.cwd)[0]


def list_claims(home: Home, table: ProcessTable) -> Iterator[Claim | BadClaim]:
    """What Qwen's registry says. It is right where runtime.json is not: for a session that two processes opened."""
    return list_registered(home, "sessions", _read_registered)


class _Registered(Struct):
    """What is read of a registry record. Its socket and its token are not named here, so they are never decoded."""

    schemaVersion: int
    pid: Annotated[int, Meta(ge=1, le=4_194_304)]
    procStart: str
    pidNs: Annotated[int, Meta(ge=1, lt=1 << 62)]
    sessionId: str
    cwd: str
    startedAt: Annotated[float, Meta(ge=0, lt=1e15)]
    """Epoch milliseconds."""
    qwenVersion: str | None = None


def _read_registered(data: bytes) -> Registered | str:
    record = msgspec.json.decode(data, type=_Registered)
    start = _START.match(record.procStart)
    if record.schemaVersion != 1:
        return f"unknown schemaVersion {record.schemaVersion}"
    if start is None:
        return "procStart is not a boot id and start ticks"
    if not is_session_id(record.sessionId):
        return "sessionId is not a session id"
    return Registered(
        pid=record.pid,
        session_id=record.sessionId,
        started_at=record.startedAt / 1000,
        start_ticks=int(start[2]),
        boot_id=start[1],
        pid_ns=record.pidNs,
        work_dir=record.cwd,
        version=record.qwenVersion,
    )
