"""Drives kimi-cli 1.51.0 on a real terminal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from tests.contract.driver import Driver
from tests.contract.model_calls import Call
from tests.contract.processes import Proc
from tests.contract.tui import READY_SECONDS, Tui


class KimiCliTui(Tui):
    """A running kimi-cli."""

    compaction_end, turn_end, request_mark = '"CompactionEnd"', '"TurnEnd"', '"StepBegin"'
    compacted = r"The context has been compacted[\s\S]*(── input ─)"
    answering = "Composing..."  # an answer is shown line by line

    def wait_ready(self) -> None:
        self.terminal.wait_screen(
            lambda screen: "── input ──" in screen and "context:" in screen,
            READY_SECONDS,
            what="the input box",
        )

    def input_text(self, screen: str) -> str | None:
        _, box, below = screen.rpartition("── input ─")
        if not box:
            return None
        lines = below.split("\n")[1:]
        end = next((n for n, line in enumerate(lines) if line.startswith("────")), len(lines))
        return "\n".join(lines[:end]).strip()

    def logs(self) -> Iterable[Path]:
        return (self.home.data / "sessions").glob("*/*/wire.jsonl")

    def is_mine(self, proc: Proc) -> bool:
        return proc.comm == "Kimi Code"

    def hang_up(self, call: Call, key: str) -> None:
        # It draws a new input line then; what is typed before that is lost.
        since = self.terminal.mark()
        super().hang_up(call, key)
        self.wait_printed(r"Interrupted by user[\s\S]*(── input ─)", since)

    def new_session(self) -> str:
        since = self.terminal.mark()
        self.type_line("/new")
        return self._wait_banner(since)

    def fork(self) -> str:
        since = self.terminal.mark()
        self.type_line("/fork")
        return self._wait_banner(since)

    def undo(self) -> str:
        since = self.terminal.mark()
        self.type_line("/undo")
        self.terminal.wait_screen("Select a turn to undo")
        # The list stays on the screen; that it was answered is said below it.
        self.press_until("\r", lambda _: "Forked at turn" in self.terminal.text_since(since), "a turn taken back")
        session_id = self._wait_banner(since)
        self.clear_input()
        return session_id

    def switch_to(self, session_id: str) -> None:
        since = self.terminal.mark()
        self.type_line("/sessions")
        self.pick(session_id[:8])
        if (now := self._wait_banner(since)) != session_id:
            raise LookupError(f"the list led to {now} instead of {session_id}")

    def _wait_banner(self, since: int) -> str:
        # The welcome box is printed again whenever the process moves to another session.
        session_id = self.wait_printed(r"Session: (\S+)\s", since)  # the blank: not the first half of an id
        self.wait_ready()
        return session_id


class KimiCli(Driver):
    """kimi-cli with its home."""

    name = "kimi-cli"
    command = "kimi"
    print_option = "--print"
    tui = KimiCliTui

    def session_args(self, session_id: str | None, resume: str | None) -> list[str]:
        # One flag for both: an id that is not on disk is created.
        chosen = session_id or resume
        return ["--session", chosen] if chosen else []

    def session_ids_on_disk(self) -> set[str]:
        return {path.parent.name for path in (self.home.data / "sessions").glob("*/*/context.jsonl")}

    def owns(self, session_dir: Path, work_dir: Path) -> bool:
        return session_dir.parent.name == hashlib.md5(str(work_dir).encode(), usedforsecurity=False).hexdigest()
