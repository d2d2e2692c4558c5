"""kimi-cli as it is installed and run, and which running processes are it.

It overwrites its own command line and environment with a title.
"""

from __future__ import annotations

import os

from msgspec import structs

from corral.machine.processes import Process, ProcessTable
from corral.model.process import OwnLog, ProcessMode, Recognised
from corral.providers.kimi_cli import reporter
from corral.providers.kit.homes import HomePlace
from corral.providers.kit.recognition import Cli, Modes, find_mapped_distribution, find_python_script, find_top

NAME = reporter.name
HOME = HomePlace(NAME, *reporter.HOME)

# kimi 1.51, as the kernel cuts them to 15 bytes: the program itself, and the worker of its web page that
# serves one session. `kimi-code-bg-wo`, which runs one background command, serves none (2026-11).
_TITLE = "Kimi Code"
_WEB_WORKER = "kimi-code-worke"
_BACKGROUND = "__background-task-worker"
_MODULES = ("kimi_cli", "kimi_cli.cli", "kimi_cli.__main__", "kimi_cli.web.runner.worker")
CLI = Cli(
    name=NAME,
    package=NAME,
    # A global install of kimi-code renames the Python command to `kimi-legacy` (read in its source, 2026-11).
    commands=("kimi", "kimi-legacy", "kimi-cli"),
    home=HOME,
    modes=Modes(
        servers=frozenset({"acp", "web", "vis", "--acp"}),
        headless=frozenset({"--print", "--quiet", "--wire"}),
        anywhere=True,
    ),
    runtimes=frozenset({_TITLE, _WEB_WORKER, "kimi", "kimi-cli", "kimi-legacy", "uv", "sh"}),
)


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """Ours if it has the title, or is Python about to take it, whoever runs it."""
    if not _is_mine(process):
        return None
    from corral.providers.kimi_cli.own_log import LOG_PROVEN, find_log, home_of, read_own_log

    log, version = find_log(process), _find_version(process)
    # The worker of the web page, and one that is about to start, have written nothing about sessions.
    names_sessions = process.comm == _TITLE and version in LOG_PROVEN
    own = read_own_log(process, log) if log is not None and names_sessions else None
    found = CLI.recognise(
        process,
        # Its environment reads as NULs once it has its title (kimi 1.51, 2026-11); it has its log open then.
        home=HOME.find_of(process) if log is None else home_of(log),
        mode=_find_mode(process),
        group=_find_group(process, table),
        version=version,
    )
    return structs.replace(
        found,
        log=own,
        never_reports=process.comm == _WEB_WORKER or (log is not None and _may_be_server(process, own)),
        # kimi 1.51 opens its log before anything else, in every mode that serves sessions (source, 2026-11).
        # A log whose state can't be read is no proof of that.
        without_session=_is_web_server(process, own)
        or (log is None and process.is_on_terminal is not None and not _has_log_open(process)),
    )


def _is_mine(process: Process) -> bool:
    is_python = process.comm.startswith("python") and process.state not in {"Z", "X"}
    if not is_python and not CLI.may_run(process):
        return False
    # Threads and children of other programs can carry any name; kimi-cli is Python, or its own frozen binary.
    # The title fills the whole command line; a program merely *named* so still shows its path or arguments.
    has_title = process.comm in {_TITLE, _WEB_WORKER} and process.arguments in {(_TITLE,), ("kimi-code-worker",)}
    return has_title or _is_starting(process)


def _is_starting(process: Process) -> bool:
    """Before the title is set: `python …/bin/kimi …` or `python -m kimi_cli …`."""
    script = find_python_script(process)
    if script is None or _BACKGROUND in process.arguments:
        return False
    # kimi-code has a command of the same name, but node runs it: a Python script `kimi` is kimi-cli's.
    return script in _MODULES or ("/" in script and os.path.basename(script) in CLI.commands)


def _has_log_open(process: Process) -> bool:
    return any("/logs/kimi." in path for _, path in process.descriptors())


def _may_be_server(process: Process, own: OwnLog | None) -> bool:
    """Whether it may be `kimi acp`, which runs no hook, not even at a prompt (kimi 1.51, 2026-11).

    It hides its command line. But it says in the log that it begins, before it takes a session; and what needs no
    terminal and is not a server has a line there that names its session.
    """
    if own is None:
        return process.is_on_terminal is not True
    return own.has_begun and (own.beside_server or not (own.whole or process.is_on_terminal))


def _is_web_server(process: Process, own: OwnLog | None) -> bool:
    """Whether it has turned into a web server at /web or /vis: then its workers have the sessions (1.51, 2026-11)."""
    return own is not None and not own.has_begun and process.listens is True


def _find_mode(process: Process) -> ProcessMode:
    if process.comm == _WEB_WORKER:
        return ProcessMode.HEADLESS
    return CLI.modes.decide(process.arguments[2:]) or ProcessMode.UNKNOWN


def _find_group(process: Process, table: ProcessTable) -> int:
    # Each worker of the web page serves a session of its own.
    return process.pid if process.comm == _WEB_WORKER else find_top(process, table, _is_mine)


def _find_version(process: Process) -> str | None:
    installed = find_mapped_distribution(process, "kimi_cli")
    return installed.version if installed is not None and installed.product == NAME else None
