"""A small agent that embeds corral.sidecar: a chat loop in Kimi CLI's file format, with an echo for a model.

    .venv/bin/python examples/reference_agent.py --home /tmp/agent-home --work-dir .

It shows the four moments at which a CLI reports: start, switch, every event, quit. It is a real process with
real session files, so that tests and demonstrations need neither a network nor an account. Its home is thrown
away with it: it must be empty or made by this program, and is never a real ~/.kimi.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pwd
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corral import sidecar

MARKER = ".reference-agent"
VERSION = "1.51.0"
COMMANDS = "/new  /fork  /undo  /sessions [ID]  /ask QUESTION  /print JSON_STRING  /flood LINES  /quit"
HANG = "SLOW"
"""A prompt with this word starts a turn that does not end before the process does."""


class Home:
    """A data root as Kimi CLI lays it out: kimi.json and sessions/<md5 of the work dir>/<id>/."""

    def __init__(self, path: Path, work_dir: str) -> None:
        self.path = path
        self.work_dir = work_dir
        self.bucket = path / "sessions" / hashlib.md5(work_dir.encode(), usedforsecurity=False).hexdigest()

    def prepare(self) -> str | None:
        """Make it ready; returns why it may not be used."""
        # Not by $HOME, which a test may set: the person's own home.
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

    def __init__(self, home: Home, session_id: str) -> None:
        self.id = session_id
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
        """As Kimi CLI's /fork and /undo do: a new session whose lines are the old one's."""
        other.path.mkdir(parents=True)
        for source, target in ((self.context, other.context), (self.wire, other.wire)):
            lines = source.read_text().splitlines(keepends=True)
            if without_last_turn:
                lines = lines[: last_turn(lines)]
            target.write_text("".join(lines))
        shutil.copyfile(self.state, other.state)
        return other

    def emit(self, kind: str, **payload: object) -> None:
        append(self.wire, {"timestamp": time.time(), "message": {"type": kind, "payload": payload}})

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
    """One turn of the echo model. It answers the same words alike, and counts tokens by letters."""
    if session.title is None:
        session.set_title(words[:50])
    session.emit("TurnBegin", user_input=words)
    append(session.context, {"role": "_checkpoint", "id": session.count("_checkpoint")})
    append(session.context, {"role": "user", "content": words})
    append(session.context, {"role": "_checkpoint", "id": session.count("_checkpoint")})
    session.emit("StepBegin", n=1)
    while HANG in words.split():
        signal.pause()
    turn = session.count("user")
    answer = f"echo #{turn}: {words}"
    used = {
        "input_other": len(words),
        "output": len(answer),
        "input_cache_read": 100 * turn,
        "input_cache_creation": 0,
    }
    total = sum(used.values())
    session.emit("ContentPart", type="text", text=answer)
    session.emit(
        "StatusUpdate",
        context_usage=total / 200000,
        context_tokens=total,
        max_context_tokens=200000,
        token_usage=used,
        message_id=f"echo-{session.id[:8]}-{turn}",
        plan_mode=False,
        mcp_status=None,
    )
    append(session.context, {"role": "_usage", "token_count": total})
    append(session.context, {"role": "assistant", "content": answer})
    append(session.context, {"role": "_usage", "token_count": total + len(answer)})
    session.emit("TurnEnd")
    return answer


class Agent:
    """The loop. What matters to an embedder are the four lines that call `self.claim`."""

    def __init__(self, home: Home, session: Session) -> None:
        self.home = home
        self.session = session
        self.question: str | None = None
        """The id of a question that waits for the person's next line."""
        # Start: say which process serves which session. A problem is kept in claim.problem, never raised.
        self.claim = sidecar.claim(
            session.path,
            session_id=session.id,
            work_dir=home.work_dir,
            cli="kimi-cli",
            version=VERSION,
            provider="kimi-cli",
        )

    def move_to(self, session: Session) -> str:
        self.session = session
        # Switch: the old file is cleared, then the new one written.
        self.claim.switch(session.path, session.id)
        return f"session {session.id}"

    def answer(self, line: str) -> str:
        # Every event: takes the file over, should another process have held it and died.
        if self.claim.problem is not None:
            self.claim.refresh()
        if self.question is not None:
            return self.take_reply(line)
        match line.split():
            case ["/ask", *words] if words:
                return self.ask(" ".join(words))
            case ["/print", *_]:
                return str(json.loads(line.removeprefix("/print")))
            case ["/flood", lines] if lines.isdecimal():
                return "\n".join(f"line {number} of {lines}" for number in range(1, int(lines) + 1))
            case ["/new"]:
                return self.move_to(Session(self.home, str(uuid.uuid4())).create())
            case ["/fork"]:
                fork = self.session.copy_to(Session(self.home, str(uuid.uuid4())))
                fork.set_title(f"Fork: {self.session.title or 'Untitled'}")
                return self.move_to(fork)
            case ["/undo"]:
                return self.move_to(self.session.copy_to(Session(self.home, str(uuid.uuid4())), without_last_turn=True))
            case ["/sessions"]:
                return "\n".join(self.home.session_ids())
            case ["/sessions", session_id] if session_id in self.home.session_ids():
                return self.move_to(Session(self.home, session_id))
            case ["/sessions", session_id]:
                return f"no session {session_id}"
            case [command, *_] if command.startswith("/"):
                return f"unknown command {command}; there are {COMMANDS}"
            case _:
                return take_turn(self.session, line)

    def ask(self, question: str) -> str:
        """A turn in which the model asks the person, as Kimi CLI logs it; the next line is the answer."""
        if self.session.title is None:
            self.session.set_title(question[:50])
        self.question = f"ask-{self.session.count('user')}"
        self.session.emit("TurnBegin", user_input=question)
        append(self.session.context, {"role": "user", "content": question})
        self.session.emit("StepBegin", n=1)
        self.session.emit("QuestionRequest", tool_call_id=self.question, questions=[{"question": question}])
        return f"? {question}"

    def take_reply(self, line: str) -> str:
        self.session.emit("ToolResult", tool_call_id=self.question)
        self.session.emit("TurnEnd")
        self.question = None
        return f"you said: {line}"

    def quit(self) -> None:
        self.home.register(self.session.id)
        # Quit: the file stays, as the protocol says; readers verify that the process is gone.
        self.claim.release()


def read_lines(slow: bool) -> Iterator[str]:
    """The person's lines up to /quit or the end of input; in slow mode each of them hangs the agent."""
    while True:
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line or line.strip() == "/quit":
            return
        if line := line.strip():
            yield f"{HANG} {line}" if slow and not line.startswith("/") else line


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], epilog=f"commands: {COMMANDS}")
    parser.add_argument("--home", type=Path, required=True, help="data root: empty, new, or made by this program")
    parser.add_argument("--work-dir", type=Path, default=Path.cwd(), help="where the session works (default: here)")
    parser.add_argument("--session", metavar="ID", help="resume this session, or start one of this id")
    parser.add_argument("--slow", action="store_true", help=f"every turn hangs, not only those with the word {HANG}")
    args = parser.parse_args()
    if args.session is not None and not sidecar.is_valid_id(args.session):
        parser.error(f"{args.session!r} is no session id")
    home = Home(args.home, str(args.work_dir.resolve()))
    if (problem := home.prepare()) is not None:
        print(f"reference_agent: {problem}", file=sys.stderr)
        return 2
    agent = Agent(home, Session(home, args.session or str(uuid.uuid4())).create())
    print(f"session {agent.session.id} pid {os.getpid()}", flush=True)
    try:
        for line in read_lines(args.slow):
            print(agent.answer(line), flush=True)
    except KeyboardInterrupt:
        return 130  # as abrupt as a crash: the turn stays open, kimi.json is not told
    agent.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
