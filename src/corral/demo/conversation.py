"""Conversations on disk as Kimi CLI lays them out: what the reference agent writes and the demo shows."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

MARKER = ".reference-agent"
HANG = "SLOW"
"""A prompt with this word starts a turn that lasts until the process ends."""


class Tokens(NamedTuple):
    """What one answer cost."""

    input: int
    cached: int
    output: int


class Home:
    """A data root as Kimi CLI lays it out: kimi.json and sessions/<md5 of the work dir>/<id>/."""

    def __init__(self, path: Path, work_dir: str) -> None:
        self.path = path
        self.work_dir = work_dir
        self.bucket = path / "sessions" / hashlib.md5(work_dir.encode(), usedforsecurity=False).hexdigest()

    def prepare(self) -> str | None:
        """Make it ready. Returns a reason if it must not be used."""
        # The person's own home, not $HOME, which a test may set.
        real = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".kimi"
        if self.path.resolve().is_relative_to(real.resolve()):
            return "this program writes invented sessions: it never runs in a real ~/.kimi"
        if self.path.exists() and any(self.path.iterdir()) and not (self.path / MARKER).exists():
            return f"{self.path} is not empty and was not made by this program"
        self.bucket.mkdir(parents=True, exist_ok=True)
        (self.path / MARKER).touch()
        self.register(None)
        return None

    def register(self, last_session_id: str | None) -> None:
        """Kimi CLI lists the work dir at start and notes the last session at a clean exit only."""
        file = self.path / "kimi.json"
        listed: list[dict[str, Any]] = json.loads(file.read_text())["work_dirs"] if file.exists() else []
        entry = next((entry for entry in listed if entry["path"] == self.work_dir), None)
        if entry is None:
            entry = {"path": self.work_dir, "kaos": "local", "last_session_id": None}
            listed.append(entry)
        if last_session_id is not None:
            entry["last_session_id"] = last_session_id
        temp = file.with_suffix(f".{os.getpid()}")
        temp.write_text(json.dumps({"work_dirs": listed}, indent=2))
        temp.replace(file)

    def session_ids(self) -> list[str]:
        return sorted(path.name for path in self.bucket.iterdir() if (path / "context.jsonl").exists())


class Session:
    """One conversation on disk."""

    def __init__(self, home: Home, session_id: str, now: Callable[[], float] = time.time) -> None:
        self.id = session_id
        self.now = now
        self.path = home.bucket / session_id
        self.context = self.path / "context.jsonl"
        self.wire = self.path / "wire.jsonl"
        self.state = self.path / "state.json"

    def create(self, title: str | None = None) -> Session:
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.context.exists():
            append(self.context, {"role": "_system_prompt", "content": "You are an echo."})
            append(self.wire, {"type": "metadata", "protocol_version": "1.10"})
            self.set_title(title)
        return self

    def set_title(self, title: str | None) -> None:
        state: dict[str, Any] = {
            "version": 1,
            "approval": {"yolo": False, "afk": False, "auto_approve_actions": []},
            "additional_dirs": [],
            "custom_title": title,
            "title_generated": False,
            "title_generate_attempts": 0,
            "plan_mode": False,
            "plan_session_id": None,
            "plan_slug": None,
            "wire_mtime": None,
            "archived": False,
            "archived_at": None,
            "auto_archive_exempt": False,
            "todos": [],
        }
        self.state.write_text(json.dumps(state, indent=2))

    @property
    def title(self) -> str | None:
        return json.loads(self.state.read_text())["custom_title"]

    def copy_to(self, other: Session, without_last_turn: bool = False) -> Session:
        """A new session with the lines of this one, as Kimi CLI's /fork and /undo make it."""
        other.path.mkdir(parents=True)
        for source, target in ((self.context, other.context), (self.wire, other.wire)):
            lines = source.read_text().splitlines(keepends=True)
            if without_last_turn:
                lines = lines[: last_turn(lines)]
            target.write_text("".join(lines))
        shutil.copyfile(self.state, other.state)
        return other

    def emit(self, kind: str, **payload: object) -> None:
        append(self.wire, {"timestamp": self.now(), "message": {"type": kind, "payload": payload}})

    def said(self) -> list[tuple[str, str]]:
        """Who said what, in order: ("user", "hello"), ("assistant", "echo #1: hello")."""
        records: list[dict[str, Any]] = [json.loads(line) for line in self.context.read_text().splitlines()]
        return [(one["role"], one["content"]) for one in records if one["role"] in ("user", "assistant")]

    def count(self, role: str) -> int:
        return sum(json.loads(line)["role"] == role for line in self.context.read_text().splitlines())


def append(path: Path, line: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def last_turn(lines: list[str]) -> int:
    """Where the last turn begins, in a context (the checkpoint before the user's words) or in a wire file."""
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for number in range(len(records) - 1, -1, -1):
        if records[number].get("message", {}).get("type") == "TurnBegin":
            return number
        if records[number].get("role") == "user":
            return number - 1
    return len(lines)


def take_turn(session: Session, words: str) -> str:
    """One turn of the echo model: the same words get the same answer, and letters count as tokens."""
    if HANG in words.split():
        begin_slow_turn(session, words)
    begin_turn(session, words)
    turn = session.count("user")
    answer = f"echo #{turn}: {words}"
    end_turn(session, answer, Tokens(len(words), 100 * turn, len(answer)))
    return answer


def begin_slow_turn(session: Session, words: str) -> NoReturn:
    """A turn that lasts until the process ends."""
    begin_turn(session, words)
    while True:
        signal.pause()


def begin_turn(session: Session, words: str) -> None:
    """The person's words are on disk, and the model has begun."""
    if session.title is None:
        session.set_title(words[:50])
    session.emit("TurnBegin", user_input=words)
    append(session.context, {"role": "_checkpoint", "id": session.count("_checkpoint")})
    append(session.context, {"role": "user", "content": words})
    append(session.context, {"role": "_checkpoint", "id": session.count("_checkpoint")})
    session.emit("StepBegin", n=1)


def end_turn(session: Session, answer: str, tokens: Tokens) -> None:
    """The answer is on disk, with what it cost."""
    total = sum(tokens)
    session.emit("ContentPart", type="text", text=answer)
    session.emit(
        "StatusUpdate",
        context_usage=total / 200000,
        context_tokens=total,
        max_context_tokens=200000,
        token_usage={
            "input_other": tokens.input,
            "output": tokens.output,
            "input_cache_read": tokens.cached,
            "input_cache_creation": 0,
        },
        message_id=f"echo-{session.id[:8]}-{session.count('user')}",
        plan_mode=False,
        mcp_status=None,
    )
    append(session.context, {"role": "_usage", "token_count": total})
    append(session.context, {"role": "assistant", "content": answer})
    append(session.context, {"role": "_usage", "token_count": total + len(answer)})
    session.emit("TurnEnd")
