"""Drives codex 0.166.0 on a real terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.contract.driver import Driver, run_without_terminal
from tests.contract.homes import Home
from tests.contract.model_calls import Call
from tests.contract.processes import Proc, cmdline, read_proc
from tests.contract.terminal import Terminal
from tests.contract.tui import READY_SECONDS, Tui, Unsupported
from tests.contract.window import Window

_PLACEHOLDER = "Ask Codex to do anything"
_BUSY = "esc to interrupt"


class CodexTui(Tui):
    """A running codex."""

    compaction_end, turn_end, request_mark = '"ContextCompaction"', '"task_complete"', ""

    def wait_ready(self) -> None:
        self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", READY_SECONDS, what="the input line")
        self.wait_until(lambda: bool(self.held()), "the lock of a thread", READY_SECONDS)

    def input_text(self, screen: str) -> str | None:
        lines = screen.split("\n")
        starts = [number for number, line in enumerate(lines) if line.startswith("›")]
        if not starts:
            return None
        box: list[str] = []
        for line in lines[starts[-1] :]:
            if not line.strip():
                break
            box.append(line.removeprefix("›").strip())
        text = " ".join(box)
        return "" if text == _PLACEHOLDER else text

    def is_idle_after(self, call: Call) -> bool:
        return _BUSY not in self.terminal.screen() and super().is_idle_after(call)

    def logs(self) -> Iterable[Path]:
        return self.home.data.glob("sessions/*/*/*/rollout-*.jsonl")

    def is_mine(self, proc: Proc) -> bool:
        return proc.comm == "codex" and "app-server" not in cmdline(proc.pid)

    def held(self) -> set[str]:
        """The threads whose locks its process has open: the test's own look, which proves the lock by its holder."""
        return held_by(self.serving_pid())

    def new_session(self) -> str:
        return self._leave_by("/new")

    def fork(self) -> str:
        return self._leave_by("/fork")

    def undo(self) -> str:
        raise Unsupported("codex 0.166.0 goes back by Escape in its transcript, and has no command for it")

    def switch_to(self, session_id: str) -> None:
        self.type_line(f"/resume {session_id}")
        self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", what="the input line")

    def _leave_by(self, command: str) -> str:
        before = self.held()
        self.type_line(command)
        self.wait_until(lambda: bool(self.held() - before), f"another thread after {command}")
        self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", what="the input line")
        (found,) = self.held() - before
        return found


def held_by(pid: int) -> set[str]:
    """The threads whose lock files a process has open."""
    found: set[str] = set()
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found
    for name in names:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if "/thread-writer-locks/" in path and not path.endswith(".coordination.lock"):
            found.add(os.path.basename(path).removesuffix(".lock"))
    return found


def is_managed(words: list[str], home: Home) -> bool:
    return bool(words) and words[0].startswith(str(home.data)) and "--managed-daemon" in words


def find_daemon(home: Home) -> Proc:
    """The server of all windows of this home."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    (pid,) = [pid for pid in pids if is_managed(cmdline(pid), home)]
    found = read_proc(pid)
    assert found is not None
    return found


class CodexWindow(CodexTui):
    """A window of the shared daemon."""

    def wait_ready(self) -> None:
        self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", READY_SECONDS, what="the input line")


class Codex(Driver):
    """codex with its home."""

    name = "codex"
    command = "codex"
    tui = CodexTui

    def session_args(self, session_id: str | None, resume: str | None) -> list[str]:
        if session_id:
            raise Unsupported("codex does not let the caller choose an id")
        return ["resume", "--no-daemon", resume] if resume else ["--no-daemon"]

    def on(self, terminal: Window) -> Tui:
        return self._begin(super().on(terminal))

    def window(self) -> Tui:
        """As people start it: the shared daemon serves."""
        env = {**self.home.env, "PWD": str(self.home.work_dir)}
        terminal = Terminal([self.command], cwd=self.home.work_dir, env=env)
        return self._begin(CodexWindow(terminal, self.server, self.home))

    def _begin(self, agent: Tui) -> Tui:
        """Of two that make the databases of a fresh home at once, one ends with an error (0.166.0, 2026-11)."""
        if not any(self.home.data.glob("state_*.sqlite")):
            agent.wait_ready()
        return agent

    def tell(self, *words: str) -> int:
        """Runs one of its commands."""
        return run_without_terminal([self.command, *words], cwd=self.home.work_dir, home=self.home).returncode

    def print_run(
        self,
        text: str,
        *,
        work_dir: Path | None = None,
        session_id: str | None = None,
        resume: str | None = None,
        args: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        words = ["resume", resume] if resume else []
        argv = [self.command, "exec", *words, "--skip-git-repo-check", *args, text]
        return run_without_terminal(argv, cwd=work_dir or self.home.work_dir, home=self.home)

    def session_ids_on_disk(self) -> set[str]:
        return {path.stem[-36:] for path in self.home.data.glob("sessions/*/*/*/rollout-*.jsonl")}
