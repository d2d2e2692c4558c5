"""Drives kimi-code 2.1.0 on a real terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.contract.driver import Driver
from tests.contract.processes import Proc
from tests.contract.tui import READY_SECONDS, Tui, Unsupported

_SESSION = r"(session_[0-9a-f-]{36})"


class KimiCodeTui(Tui):
    """A running kimi-code."""

    compaction_end, turn_end, request_mark = '"full_compaction.complete"', '"turn.ended"', '"llm.request"'
    compacted = "(Compaction complete)"

    def wait_ready(self) -> None:
        shown = self.terminal.wait_screen(
            lambda screen: "❯ Trust this folder" in screen or _is_ready(screen),
            READY_SECONDS,
            what="dialog or input box",
        )
        if "❯ Trust this folder" in shown:
            self.press_until("\r", lambda screen: "❯ Trust this folder" not in screen, "the answer taken")
            self.terminal.wait_screen(_is_ready, READY_SECONDS, what="the input box")

    def input_text(self, screen: str) -> str | None:
        lines = screen.split("\n")
        starts = [number for number, line in enumerate(lines) if line.startswith(" │ >")]
        if not starts:
            return None
        box = []
        for line in lines[starts[-1] :]:
            if not line.startswith(" │"):
                break
            box.append(line.strip(" │").removeprefix(">").strip())
        return "\n".join(box).strip()

    def logs(self) -> Iterable[Path]:
        return (self.home.data / "sessions").glob("*/*/agents/main/wire.jsonl")

    def is_mine(self, proc: Proc) -> bool:
        return proc.comm == "kimi-code"

    def new_session(self) -> str:
        since = self.terminal.mark()
        self.type_line("/new")
        session_id = self.wait_printed(rf"Started a new session \({_SESSION}\)", since)
        self.terminal.wait_screen(_is_ready, what="the input box")
        return session_id

    def fork(self) -> str:
        since = self.terminal.mark()
        self.type_line("/fork")
        return self.wait_printed(rf"Session forked \({_SESSION}\)", since)

    def undo(self) -> str:
        self.type_line("/undo")
        shown = self.terminal.wait_screen("Select messages to undo")
        self.press_until("\r", lambda screen: "Select messages to undo" not in screen, "the list closed")
        self.clear_input()
        banners = [line for line in shown.split("\n") if "Session:" in line]
        return banners[-1].strip(" │").split()[-1] if banners else ""

    def switch_to(self, session_id: str) -> None:
        since = self.terminal.mark()
        self.type_line("/sessions")
        self.pick(session_id)
        now = self.wait_printed(rf"Resumed session \({_SESSION}\)", since)
        if now != session_id:
            raise LookupError(f"the list led to {now} instead of {session_id}")
        self.terminal.wait_screen(_is_ready, what="the input box")


def _is_ready(screen: str) -> bool:
    return "\n │ >" in screen and "context:" in screen


class KimiCode(Driver):
    """kimi-code with its home."""

    name = "kimi-code"
    command = "kimi"
    tui = KimiCodeTui

    def session_args(self, session_id: str | None, resume: str | None) -> list[str]:
        if session_id:
            raise Unsupported("kimi-code does not let the caller choose an id; resume one that it made")
        return ["-r", resume] if resume else []

    def session_ids_on_disk(self) -> set[str]:
        return {path.parent.name for path in (self.home.data / "sessions").glob("wd_*/*/state.json")}

    def owns(self, session_dir: Path, work_dir: Path) -> bool:
        return session_dir.parent.name.startswith(f"wd_{work_dir.name}_")
