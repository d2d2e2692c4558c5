"""What the tests of Codex share: a home that a test may spoil, the lines Codex writes, and stand-ins that hold locks."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec import structs

from corral.model.key import Home
from corral.model.record import SessionRecord, Skipped
from corral.model.selection import Selection
from corral.model.session import Survey
from corral.providers.codex import PROVIDER as codex
from corral.sessions.survey import take_survey
from tests.providers.reading import Memory

FIXTURES = Path(__file__).parent / "fixtures" / "codex"
RESUMED_ELSEWHERE = "01a1e0ac-0568-76d0-8a5b-a7f6103e8a89"
DAEMON_KILLED = "01a1e0ac-94f5-7432-bec3-50e6c04a084c"
COMPACTED = "01a1e0ac-e52d-7d82-95e1-9e4abaea16d1"
UNUSED = "01a1e0ad-5870-7203-be91-230c5c4ec8be"
PARENT = "01a1e0ad-7d8f-7432-834b-08d7806092cb"
FORK = "01a1e0ad-c76e-7c82-9335-c61e86f7a702"
WITH_AGENT = "01a1e0b6-cb6a-7a60-b246-85d1482c5383"
AGENT = "01a1e0b6-cc3e-7822-a003-6e63de3d400a"
ABORTED = "01a1e0b7-8275-7c20-b944-d2fe67ece314"
TERMINATED = "01a1e0b7-8e8f-71a2-a5e5-5c7c00aa0dff"
NEW_ID = "01a1e0ff-0000-7000-8000-00000000000a"
DAY = "sessions/2026/11/15"

# A stand-in is Python under the name of Codex: `-c` takes a value in both, and what follows are words of Codex. It locks
# what LOCKS names and opens what LOGS names.
HOLDER = """
import fcntl, os, sys
held = [open(path) for path in os.environ.get("LOCKS", "").split(":") if path]
for file in held: fcntl.flock(file, fcntl.LOCK_EX)
logs = [open(path) for path in os.environ.get("LOGS", "").split(":") if path]
print(flush=True)
sys.stdin.read()
"""


class Place:
    """A copy of the fixture home that a test may spoil, and the processes that a test starts on it."""

    def __init__(self, root: Path) -> None:
        self.root = root / ".codex"
        shutil.copytree(FIXTURES, self.root)
        self.home = Home(provider=codex.name, path=str(self.root), is_default=True, origin="default")
        self.locks = self.root / "thread-writer-locks"
        self.locks.mkdir()
        (self.locks / ".coordination.lock").touch()
        self.program = root / "bin" / "codex"
        self._started: list[subprocess.Popen[str]] = []

    def listing(self, memory: Memory | None = None) -> list[SessionRecord | Skipped]:
        return [
            one
            for one in codex.list_sessions(self.home, memory or Memory())
            if isinstance(one, SessionRecord | Skipped)
        ]

    def records(self) -> dict[str, SessionRecord]:
        return {entry.session_id: entry for entry in self.listing() if isinstance(entry, SessionRecord)}

    def skipped(self) -> dict[str, str]:
        return {Path(entry.path).name: entry.reason for entry in self.listing() if isinstance(entry, Skipped)}

    def rollout(self, thread_id: str) -> Path:
        found = list(self.root.glob(f"*/**/rollout-*-{thread_id}.jsonl"))
        return found[0] if found else self.root / DAY / f"rollout-2026-11-15T20-00-00-{thread_id}.jsonl"

    def lines(self, thread_id: str) -> list[bytes]:
        return self.rollout(thread_id).read_bytes().splitlines(keepends=True)

    def write(self, *lines: bytes, thread_id: str = NEW_ID) -> SessionRecord:
        self.rollout(thread_id).write_bytes(b"".join(lines))
        return self.records()[thread_id]

    def archive(self, thread_id: str) -> None:
        (self.root / "archived_sessions").mkdir(exist_ok=True)
        self.rollout(thread_id).rename(self.root / "archived_sessions" / self.rollout(thread_id).name)

    def index(self, *rows: tuple[str, str, str | None], name: str = "state_5.sqlite") -> Path:
        """Codex's own index: id, title, name."""
        path = self.root / name
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE threads (id TEXT PRIMARY KEY, title TEXT, name TEXT, cwd TEXT, git_branch TEXT)")
            db.executemany("INSERT INTO threads VALUES (?, ?, ?, '/home/dev/projects/app', NULL)", rows)
        db.close()
        return path

    def lock(self, *thread_ids: str) -> str:
        paths = [self.locks / f"{one}.lock" for one in thread_ids]
        for path in paths:
            path.touch()
        return ":".join(map(str, paths))

    def start(
        self, *words: str, locks: tuple[str, ...] = (), logs: tuple[str, ...] = (), program: Path | None = None
    ) -> int:
        """A process that looks like Codex with these words, and holds the locks of these threads."""
        if not self.program.exists():
            self.program.parent.mkdir(exist_ok=True)
            shutil.copy(os.path.realpath(sys.executable), self.program)
        env = {
            "HOME": str(self.root.parent),
            "PYTHONHOME": sys.base_prefix,
            "LOCKS": self.lock(*locks),
            "LOGS": ":".join(str(self.rollout(one)) for one in logs),
        }
        argv = [str(program or self.program), "-c", HOLDER, *words]
        process = subprocess.Popen(argv, env=env, stdin=-1, stdout=-1, text=True)
        self._started.append(process)
        assert process.stdout and process.stdout.readline() == "\n"
        return process.pid

    def kill(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def look(self) -> Survey:
        """Less what belongs to other homes: whoever runs the tests may have agents open."""
        survey = take_survey(Selection(), [codex])
        mine = str(self.root)
        return structs.replace(
            survey,
            sessions=[one for one in survey.sessions if one.key.home == mine],
            no_session_yet=[one for one in survey.no_session_yet if one.home == mine],
            unattributed=[one for one in survey.unattributed if one.home == mine],
        )

    def live(self) -> dict[str, int | None]:
        """By session, what serves it."""
        return {one.session_id: one.pid for one in self.look().sessions if one.state == "live"}


def line(kind: str, at: str = "2026-11-15T20:00:00.000Z", **payload: Any) -> bytes:
    """One line as Codex writes it."""
    return json.dumps({"timestamp": at, "type": kind, "payload": payload}).encode() + b"\n"


def meta(thread_id: str = NEW_ID, **more: Any) -> bytes:
    return line(
        "session_meta", id=thread_id, timestamp="2026-11-15T20:00:00.000Z", cwd="/home/dev/projects/app", **more
    )


def event(kind: str, **more: Any) -> bytes:
    return line("event_msg", type=kind, **more)


def asked(text: str) -> bytes:
    item = {"type": "UserMessage", "id": text, "content": [{"type": "text", "text": text}]}
    return event("item_completed", item=item)


def call(call_id: str, command: str = "ls") -> bytes:
    arguments = json.dumps({"cmd": command})
    return line("response_item", type="function_call", name="exec_command", call_id=call_id, arguments=arguments)


def output(call_id: str) -> bytes:
    return line("response_item", type="function_call_output", call_id=call_id, output="done")
