"""Drives claude-code 2.1.325 on a real terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.contract.driver import Driver
from tests.contract.model_calls import Call
from tests.contract.processes import Proc, cmdline, inner_pid
from tests.contract.tui import READY_SECONDS, Tui

_RULE = "────"


class ClaudeCodeTui(Tui):
    """A running claude-code."""

    compaction_end, turn_end, request_mark = '"compact_boundary"', '"turn_duration"', ""
    compacted, answering, agents_run_beside = "(Compacted)", "esc to interrupt", True

    def wait_ready(self) -> None:
        self.terminal.wait_screen(
            lambda screen: self.input_text(screen) is not None, READY_SECONDS, what="an input line"
        )
        self.wait_until(lambda: self.record().get("status") == "idle", "its registry record", READY_SECONDS)

    def input_text(self, screen: str) -> str | None:
        lines = screen.split("\n")
        rules = [number for number, line in enumerate(lines) if line.startswith(_RULE)]
        if len(rules) < 2 or not lines[rules[-2] + 1].startswith("❯"):
            return None
        return "\n".join(lines[rules[-2] + 1 : rules[-1]]).removeprefix("❯").strip()

    def is_idle_after(self, call: Call) -> bool:
        return self.record().get("status") == "idle" and super().is_idle_after(call)

    def logs(self) -> Iterable[Path]:
        return (self.home.data / "projects").glob("*/*.jsonl")

    # One process: npm's command is the program itself (2.1.325, 2026-11).
    def is_mine(self, proc: Proc) -> bool:
        return any(Path(word).name in ("claude", "claude.exe") for word in cmdline(proc.pid)[:1])

    def record(self) -> dict[str, Any]:
        """What its own registry says; nothing before it has registered, or while it writes."""
        try:
            return json.loads((self.home.data / "sessions" / f"{inner_pid(self.serving_pid())}.json").read_text())
        except (OSError, ValueError):
            return {}

    def current_session(self) -> str | None:
        return self.record().get("sessionId")

    def new_session(self) -> str:
        return self._leave_by("/clear")

    def fork(self) -> str:
        return self._leave_by("/branch")

    def undo(self) -> str:
        self.type_line("/rewind")
        self.terminal.wait_screen("❯ (current)", what="the list of prompts")
        self.press_until("\x1b[A", lambda screen: "❯ (current)" not in screen, "the last prompt chosen")
        self.press_until("\r", lambda screen: "❯ 1. Restore conversation" in screen, "how to restore")
        self.press_until("\r", lambda screen: "Restore conversation" not in screen, "the dialog closed")
        self.clear_input()
        return self.current_session() or ""

    def switch_to(self, session_id: str) -> None:
        if (now := self._leave_by(f"/resume {session_id}")) != session_id:
            raise LookupError(f"/resume led to {now} instead of {session_id}")

    def quit(self) -> int:
        self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", what="an empty input line")
        self._type("/exit")
        # It leaves its last screen behind, with the command in the input line.
        self.press_until("\r", lambda _: self.terminal.exit_code is not None, "its end")
        return self.terminal.wait_exit()

    def _leave_by(self, command: str) -> str:
        before = self.current_session()
        self.type_line(command)
        self.wait_until(lambda: self.current_session() not in (None, before), f"another session after {command}")
        self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", what="an empty input line")
        return self.current_session() or ""


class ClaudeCode(Driver):
    """claude-code with its home."""

    name = "claude-code"
    command = "claude"
    tui = ClaudeCodeTui

    def session_args(self, session_id: str | None, resume: str | None) -> list[str]:
        if session_id:
            return ["--session-id", session_id]
        return ["--resume", resume] if resume else []

    def session_ids_on_disk(self) -> set[str]:
        return {path.stem for path in (self.home.data / "projects").glob("*/*.jsonl")}
