"""Drives qwen-code 0.24.4 on a real terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.contract.driver import Driver
from tests.contract.model_calls import Call
from tests.contract.processes import Proc, cmdline, inner_pid
from tests.contract.tui import ESCAPE, READY_SECONDS, Tui, Unsupported

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
        """What its own registry says that it serves; None before it has registered, or while it writes."""
        try:
            record = json.loads((self.home.data / "sessions" / f"{inner_pid(self.serving_pid())}.json").read_text())
        except (OSError, ValueError):
            return None
        return record["sessionId"]

    def new_session(self) -> str:
        return self._leave_by("/clear")

    def fork(self) -> str:
        # 0.24.4 takes the typed command itself for a response in progress, so it always refuses (2026-11).
        raise Unsupported("qwen-code 0.24.4 refuses /branch; use print_run(…, resume=id, args=['--fork-session'])")

    def undo(self) -> str:
        # For the same reason a typed /rewind does nothing; the Escape key, twice, opens the same list.
        self._open_rewind()
        self.press_until("\r", lambda screen: "› Restore conversation only" in screen, "how to restore")
        self.press_until("\r", lambda screen: "› Restore conversation only" not in screen, "the dialog closed")
        self.clear_input()
        return self.current_session() or ""

    def _open_rewind(self) -> None:
        """The second Escape counts only while the hint of the first is shown, which a busy machine may outlast."""
        for _ in range(5):
            self.press_until(ESCAPE, lambda screen: "Press Esc again to rewind" in screen, "the hint")
            self.terminal.send(ESCAPE)
            try:
                self.terminal.wait_screen("Enter to select · Esc to cancel", 10)
            except TimeoutError:
                continue
            return
        self.terminal.wait_screen("Enter to select · Esc to cancel", 0)

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
