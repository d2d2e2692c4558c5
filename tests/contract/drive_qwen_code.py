"""Drives qwen-code 0.24.4 on a real terminal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.contract.driver import READY_SECONDS, Tui, run_without_terminal
from tests.contract.homes import Home
from tests.contract.model_calls import Call
from tests.contract.model_server import ModelServer
from tests.contract.processes import Proc, cmdline
from tests.contract.terminal import Terminal

_PLACEHOLDER = "Type your message or @path/to/file"
_LEVELS = 3  # bin/qwen, cli.js, cli.js: only the third serves (0.24.4, 2026-11)


class QwenCode:
    """qwen-code with its home."""

    name = "qwen-code"

    def __init__(self, home: Home, server: ModelServer) -> None:
        self.home = home
        self.server = server

    def start(
        self,
        work_dir: Path | None = None,
        *,
        session_id: str | None = None,
        resume: str | None = None,
        args: Sequence[str] = (),
    ) -> QwenCodeTui:
        argv = ["qwen", *_session_args(session_id, resume), *args]
        terminal = Terminal(argv, cwd=work_dir or self.home.work_dir, env=self.home.env)
        return QwenCodeTui(terminal, self.server, self.home)

    def print_run(
        self,
        text: str,
        *,
        work_dir: Path | None = None,
        session_id: str | None = None,
        resume: str | None = None,
        args: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        argv = ["qwen", *_session_args(session_id, resume), *args, "-p", text]
        return run_without_terminal(argv, cwd=work_dir or self.home.work_dir, home=self.home)

    def session_ids_on_disk(self) -> set[str]:
        return {path.stem for path in (self.home.data / "projects").glob("*/chats/*.jsonl")}


class QwenCodeTui(Tui):
    """A running qwen-code."""

    def __init__(self, terminal: Terminal, server: ModelServer, home: Home) -> None:
        super().__init__(terminal, server)
        self.home = home

    def wait_ready(self) -> None:
        self.terminal.wait_screen(_is_ready, READY_SECONDS, what="the input line and footer")
        self.wait_until(lambda: self.current_session() is not None, "its registry record", READY_SECONDS)

    def input_text(self, screen: str) -> str:
        lines = screen.split("\n")
        rules = [number for number, line in enumerate(lines) if line.startswith("────")]
        if len(rules) < 2:
            return "(no input line)"
        box = "\n".join(lines[rules[-2] + 1 : rules[-1]])
        text = box.lstrip("*>! ").strip()
        return "" if text == _PLACEHOLDER else text

    def is_idle_after(self, call: Call) -> bool:
        return "◐" not in self.terminal.title() and "esc to cancel" not in self.terminal.screen()

    def is_mine(self, proc: Proc) -> bool:
        return any(word.endswith("/cli.js") for word in cmdline(proc.pid)[:3])

    def current_session(self) -> str | None:
        """What its own registry says that it serves; None before it has registered."""
        try:
            record = (self.home.data / "sessions" / f"{self.serving_pid()}.json").read_text()
        except OSError:
            return None
        return json.loads(record)["sessionId"]

    def new_session(self) -> str:
        return self._leave_by("/clear")

    def fork(self) -> str:
        return self._leave_by("/branch")

    def undo(self) -> str:
        raise NotImplementedError

    def switch_to(self, session_id: str) -> None:
        if (now := self._leave_by(f"/resume {session_id}")) != session_id:
            raise LookupError(f"/resume led to {now} instead of {session_id}")

    def _leave_by(self, command: str) -> str:
        before = self.current_session()
        self.type_line(command)
        self.wait_until(lambda: self.current_session() not in (None, before), f"another session after {command}")
        self.terminal.wait_screen(_is_ready, what="the input line and footer")
        return self.current_session() or ""


def _is_ready(screen: str) -> bool:
    return "(shift + tab to cycle)" in screen and _PLACEHOLDER in screen


def _session_args(session_id: str | None, resume: str | None) -> list[str]:
    if session_id:
        return ["--session-id", session_id]
    return ["--resume", resume] if resume else []
