"""Which running processes are kimi-cli. It overwrites its own command line and environment with a title."""

from __future__ import annotations

import os

from corral.model.process import ProcessMode, Recognised
from corral.providers.kimi_cli.places import HOME_VARIABLE, NAME
from corral.system.processes import Process, ProcessTable

# kimi 1.51, as the kernel cuts them to 15 bytes: the program itself, and the worker of its web page that
# serves one session. `kimi-code-bg-wo`, which runs one background command, serves none (2026-11).
_TITLE = "Kimi Code"
_WEB_WORKER = "kimi-code-worke"
_BACKGROUND = "__background-task-worker"
_MODULES = ("kimi_cli", "kimi_cli.cli", "kimi_cli.__main__", "kimi_cli.web.runner.worker")
_SERVERS = ("acp", "web", "vis")


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    """Ours if it has the title, or is Python about to take it, whoever runs it."""
    if not _is_mine(process):
        return None
    from corral.providers.kimi_cli.own_log import LOG_PROVEN, find_log, read_own_log

    log, version = find_log(process), _find_version(process)
    # The worker of the web page, and one that is about to start, have written nothing about sessions.
    tells = process.comm == _TITLE and version in LOG_PROVEN
    return Recognised(
        provider=NAME,
        identity=process.identity,
        started_at=process.started_at,
        home=_find_home(process) if log is None else log.home,
        mode=_find_mode(process),
        group=_find_group(process, table),
        terminal=process.terminal,
        version=version,
        work_dir=process.cwd,
        log=read_own_log(process, log) if log is not None and tells else None,
        # kimi 1.51 opens its log before anything else, in every mode that serves sessions (source, 2026-11).
        # A log whose state can't be read is no proof of that.
        without_session=log is None and process.is_on_terminal is not None and not _has_log_open(process),
    )


def _is_mine(process: Process) -> bool:
    if process.is_kernel or process.state in {"Z", "X"}:
        return False
    titled = process.comm in {_TITLE, _WEB_WORKER}
    if not titled and not _may_be_starting(process.comm):
        return False
    # Threads and children of other programs can carry any name; kimi-cli is Python, or its own frozen binary.
    return _has_title(process) if titled else _is_starting(process)


def _has_title(process: Process) -> bool:
    # The title fills the whole command line; a program merely *named* so still shows its path or arguments.
    return process.arguments in {(_TITLE,), ("kimi-code-worker",)} or _is_starting(process)


def _may_be_starting(comm: str) -> bool:
    return comm.startswith("python") or comm in {"kimi", "kimi-cli", "kimi-legacy", "uv", "sh"}


def _is_starting(process: Process) -> bool:
    """Before the title is set: `python …/bin/kimi …` or `python -m kimi_cli …`."""
    words = process.arguments
    if len(words) < 2 or "python" not in os.path.basename(words[0]) or _BACKGROUND in words:
        return False
    script = _find_script(words)
    if script is None:
        return False
    if script in _MODULES:
        return True
    # kimi-code has a command of the same name, but node runs it: a Python script `kimi` is kimi-cli's.
    return "/" in script and os.path.basename(script) in {"kimi", "kimi-cli", "kimi-legacy"}


def _find_script(words: tuple[str, ...]) -> str | None:
    """The script or module that Python was asked to run: what follows its own options."""
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            return next(rest, None)
        if word == "-c":
            return None
        if word in {"-X", "-W"}:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return None


def _find_home(process: Process) -> str | None:
    """By its environment, which reads as NULs once it has its title (kimi 1.51, 2026-11); it has its log open then."""
    if chosen := process.environ.get(HOME_VARIABLE):
        return chosen if chosen.startswith("/") else None
    if home := process.environ.get("HOME"):
        return f"{home}/.kimi"
    return None


def _has_log_open(process: Process) -> bool:
    return any("/logs/kimi." in path for _, path in process.descriptors())


def _find_mode(process: Process) -> ProcessMode:
    if process.comm == _WEB_WORKER:
        return ProcessMode.HEADLESS
    words = set(process.arguments[2:])
    if words.intersection(_SERVERS):
        return ProcessMode.SERVER
    if words.intersection({"--print", "--quiet", "--wire", "--acp"}):
        return ProcessMode.SERVER if "--acp" in words else ProcessMode.HEADLESS
    return ProcessMode.UNKNOWN


def _find_group(process: Process, table: ProcessTable) -> int:
    """The top-most of its launchers that are kimi-cli too; a nested run has a shell between."""
    top = process.pid
    if process.comm == _WEB_WORKER:
        return top  # each serves a session of its own
    for parent in table.ancestors(process):
        if not _is_mine(parent):
            break
        top = parent.pid
    return top


def _find_version(process: Process) -> str | None:
    """From an extension module it has mapped: those lie in the site-packages that kimi-cli runs from."""
    for path in process.mapped_files():
        before, found, _ = path.partition("/site-packages/")
        if found:
            from corral.system.programs import find_python_distribution

            installed = find_python_distribution("kimi_cli", f"{before}/site-packages")
            return installed.version if installed is not None and installed.product == NAME else None
    return None
