"""One CLI with its home: starting it on a terminal or without one."""

from __future__ import annotations

import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tests.contract.homes import Home
from tests.contract.model_server import ModelServer
from tests.contract.processes import descendants, stop_all
from tests.contract.terminal import Terminal
from tests.contract.tui import Tui
from tests.contract.window import Window

PRINT_SECONDS = 180.0


class Driver:
    """One CLI with its home: starts it on a terminal or without one, and knows where its sessions lie."""

    name: str
    command: str
    print_option: str | None = None
    """What a run without a terminal needs beside the prompt."""
    tui: type[Tui]

    def __init__(self, home: Home, server: ModelServer) -> None:
        self.home = home
        self.server = server

    @abstractmethod
    def session_args(self, session_id: str | None, resume: str | None) -> list[str]:
        """How one asks for a new session with this id, or for an old one."""

    @abstractmethod
    def session_ids_on_disk(self) -> set[str]: ...

    def owns(self, session_dir: Path, work_dir: Path) -> bool:
        """Whether the CLI keeps the sessions of this work directory there."""
        raise NotImplementedError

    def start(
        self,
        work_dir: Path | None = None,
        *,
        session_id: str | None = None,
        resume: str | None = None,
        args: Sequence[str] = (),
    ) -> Tui:
        argv = [self.command, *self.session_args(session_id, resume), *args]
        cwd = work_dir or self.home.work_dir
        return self.on(Terminal(argv, cwd=cwd, env={**self.home.env, "PWD": str(cwd)}))  # as a shell does

    def on(self, terminal: Window) -> Tui:
        """The agent that runs on a terminal which somebody else started."""
        return self.tui(terminal, self.server, self.home)

    def print_run(
        self,
        text: str,
        *,
        work_dir: Path | None = None,
        session_id: str | None = None,
        resume: str | None = None,
        args: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        option = [self.print_option] if self.print_option else []
        argv = [self.command, *option, *self.session_args(session_id, resume), *args, "-p", text]
        return run_without_terminal(argv, cwd=work_dir or self.home.work_dir, home=self.home)


def run_without_terminal(
    argv: Sequence[str], *, cwd: Path, home: Home, timeout: float = PRINT_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs a CLI to its end with no terminal and nothing on stdin. All that it started is gone afterwards."""
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(home.env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException:
        stop_all(descendants(process.pid))
        process.communicate()
        raise
    return subprocess.CompletedProcess(list(argv), process.returncode, out, err)
