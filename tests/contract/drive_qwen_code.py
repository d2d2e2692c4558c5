"""Drives qwen-code 0.24.4 on a real terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.contract.driver import Driver
from tests.contract.model_calls import Call
from tests.contract.processes import Proc, cmdline
from tests.contract.tui import READY_SECONDS, Tui, Unsupported

_PLACEHOLDER = "Type your message or @path/to/file"


class QwenCodeTui(Tui):
    """A running qwen-code."""

    compact_command, gives_prompt_back, agents_run_beside = "/compress", True, True
    compacted = "(Chat history compressed)"
    compaction_end, turn_end, request_mark = '"chat_compression"', '"type":"assistant"', ""

    def wait_ready(self) -> None:
        self.terminal.wait_screen(_is_ready, READY_SECONDS, what="the input line and footer")
        self.wait_until(lambda: self.current_session() is not None, "its registry record", READY_SECONDS)

    def input_text(self, screen: str) -> str | None:
        lines = screen.split("\n")
        rules = [number for number, line in enumerate(lines) if line.startswith("────")]
        if len(rules) < 2:
            return None
        box = "\n".join(lines[rules[-2] + 1 : rules[-1]])
        text = box.lstrip("*>! ").strip()
        return "" if text == _PLACEHOLDER else text

    def is_idle_after(self, call: Call) -> bool:
        shown = "◐" not in self.terminal.title() and "esc to cancel" not in self.terminal.screen()
        return shown and super().is_idle_after(call)

    def logs(self) -> Iterable[Path]:
        return (self.home.data / "projects").glob("*/chats/*.jsonl")

    # Levels: bin/qwen, cli.js, cli.js, of which the last serves; `-p` has two (0.24.4, 2026-11).
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
        # 0.24.4 takes the typed command itself for a response in progress, so it always refuses (2026-11).
        raise Unsupported("qwen-code 0.24.4 refuses /branch; use print_run(…, resume=id, args=['--fork-session'])")

    def undo(self) -> str:
        # For the same reason a typed /rewind does nothing; the Escape key, twice, opens the same list.
        self.terminal.send("\x1b")
        self.terminal.wait_screen("Press Esc again to rewind")
        self.terminal.send("\x1b")
        self.terminal.wait_screen("Enter to select · Esc to cancel")
        self.terminal.send("\r")
        self.terminal.wait_screen("› Restore conversation only")
        self._press_enter_until_gone("› Restore conversation only")
        self.clear_input()
        return self.current_session() or ""

    def _press_enter_until_gone(self, text: str) -> None:
        """A dialog that has just been drawn may not listen yet (0.24.4 on a busy machine, 2026-11)."""
        for _ in range(5):
            self.terminal.send("\r")
            try:
                self.terminal.wait_screen(lambda screen: text not in screen, 3, what=f"{text!r} answered")
            except TimeoutError:
                continue
            return
        self.terminal.wait_screen(lambda screen: text not in screen, what=f"{text!r} answered")

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


class QwenCode(Driver):
    """qwen-code with its home."""

    name = "qwen-code"
    command = "qwen"
    tui = QwenCodeTui

    def session_args(self, session_id: str | None, resume: str | None) -> list[str]:
        if session_id:
            return ["--session-id", session_id]
        return ["--resume", resume] if resume else []

    def session_ids_on_disk(self) -> set[str]:
        return {path.stem for path in (self.home.data / "projects").glob("*/chats/*.jsonl")}
