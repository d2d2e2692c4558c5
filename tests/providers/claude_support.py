"""What the tests of Claude Code share: a home that a test may spoil, the lines Claude writes, and a stand-in for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from corral.machine.processes import ProcessTable
from corral.model.claim import BadClaim, Claim
from corral.model.key import Home
from corral.model.process import Recognised
from corral.model.record import Resting, SessionRecord, Skipped
from corral.model.selection import Selection
from corral.model.session import Session, Survey
from corral.providers.claude_code import PROVIDER as claude_code
from corral.providers.contract import Provider
from corral.sessions.survey import take_survey
from tests.providers.reading import Memory

FIXTURES = Path(__file__).parent / "fixtures" / "claude-code" / "home"
SCOPE = "-home-dev-projects-app"
NORMAL = "a0f896e3-acea-4c10-9b95-85d17aab7d19"
SHARED = "11111111-2222-4333-8444-555555555555"
CLEARED = "91ad3d5c-894c-464c-81c8-8eb837a0c275"
BRANCH = "3c92da17-145b-4fce-bb29-197ad60d0f24"
PRINTED = "8801e132-dde8-4136-b0c8-4d012dfa69f8"
FORK = "22222222-2222-4333-8444-555555555555"
DELEGATED = "77777777-0000-4000-8000-000000000001"
TERMINATED = "55555555-0000-4000-8000-000000000001"
NEW_ID = "aaaaaaaa-0000-4000-8000-00000000000a"


class Place:
    """A copy of the fixture home that a test may spoil."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(provider=claude_code.name, path=str(root), is_default=True, origin="default")
        self.project = root / "projects" / SCOPE
        self.registry = root / "sessions"

    def listing(self, memory: Memory | None = None) -> list[SessionRecord | Resting | Skipped]:
        return list(claude_code.list_sessions(self.home, memory or Memory()))

    def records(self) -> dict[str, SessionRecord]:
        return {entry.session_id: entry for entry in self.listing() if isinstance(entry, SessionRecord)}

    def skipped(self) -> dict[str, str]:
        return {Path(entry.path).name: entry.reason for entry in self.listing() if isinstance(entry, Skipped)}

    def claims(self) -> list[Claim | BadClaim]:
        return list(claude_code.list_claims(self.home, ProcessTable()))

    def transcript(self, session_id: str) -> Path:
        return self.project / f"{session_id}.jsonl"

    def write(self, *lines: bytes, session_id: str = NEW_ID) -> SessionRecord:
        self.transcript(session_id).write_bytes(b"".join(lines))
        return self.records()[session_id]

    def register(self, name: str = "4242.json", **changes: Any) -> Claim | BadClaim | None:
        fields = json.loads((FIXTURES / "sessions" / "3515.json").read_text()) | {"pid": 4242} | changes
        path = self.registry / name
        path.write_text(json.dumps({key: value for key, value in fields.items() if value is not ...}))
        return next((claim for claim in self.claims() if claim.path == str(path)), None)

    def register_process(self, pid: int, session_id: str, **changes: Any) -> None:
        """The record that a running process would have written a moment ago."""
        process = ProcessTable().find(pid)
        assert process is not None
        machine = Path("/etc/machine-id").read_text().strip() if os.path.exists("/etc/machine-id") else ""
        now = time.time() * 1000
        fields = {
            "pid": pid,
            "sessionId": session_id,
            "procStart": str(process.start_ticks),
            "pidDomain": f"linux:{machine}:pid:[{process.identity.pid_ns}]",
            "startedAt": now,
            "updatedAt": now,
            "status": "idle",
            "waitingFor": ...,
        }
        self.register(f"{pid}.json", **(fields | changes))

    def forget_processes(self) -> None:
        """The records of the fixture are of another machine."""
        for path in self.registry.glob("*.json"):
            path.unlink()

    def survey(self, provider: Provider = claude_code) -> Survey:
        """Less what belongs to other homes: tests may run beside each other."""
        survey = take_survey(Selection(), [provider])
        return replace(
            survey,
            sessions=tuple(session for session in survey.sessions if session.key.home == str(self.root)),
            unattributed=tuple(process for process in survey.unattributed if process.home == str(self.root)),
        )

    def sessions(self) -> dict[str, Session]:
        return {session.session_id: session for session in self.survey().sessions}


def line(kind: str = "user", content: Any = "hello", **fields: Any) -> bytes:
    """One line as Claude writes it. `message` adds to the message itself."""
    more = fields.pop("message", {})
    base: dict[str, Any] = {
        "parentUuid": None,
        "isSidechain": False,
        "type": kind,
        "uuid": "00000000-0000-4000-8000-0000000000aa",
        "timestamp": "2026-11-15T19:00:00.000Z",
        "cwd": "/home/dev/projects/app",
        "sessionId": NEW_ID,
        "version": "2.1.325",
        "gitBranch": "master",
    }
    if kind in ("user", "assistant"):
        base["message"] = {"role": kind, "content": content} | more
    return json.dumps(base | fields).encode() + b"\n"


def answer(text: str = "done", stop_reason: str | None = "end_turn", **fields: Any) -> bytes:
    return line("assistant", [{"type": "text", "text": text}], message={"stop_reason": stop_reason}, **fields)


def call(name: str = "Bash", **fields: Any) -> bytes:
    block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {"command": "ls"}}
    return line("assistant", [block], message={"stop_reason": "tool_use"}, **fields)


def install(root: Path, version: str = "2.1.325", product: str = "@anthropic-ai/claude-code") -> Path:
    """An npm installation as it is on disk. Its `claude` is a shell: a word that it is given is a script to run."""
    package = root / "lib" / "node_modules" / product
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": product, "version": version}))
    program = package / "bin" / "claude.exe"
    shutil.copy("/bin/sh", program)
    (root / "bin").mkdir()
    (root / "bin" / "claude").symlink_to(program)
    return root / "bin" / "claude"


class Runs:
    """Starts stand-ins, and ends them."""

    def __init__(self, root: Path, data: Path) -> None:
        self.root = root
        self.command = install(root)
        self.env = {"HOME": str(root), "PATH": "/usr/bin:/bin", "CLAUDE_CONFIG_DIR": str(data)}
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, name: str = "claude", program: Path | None = None) -> int:
        """One that waits for its end, whatever it is told."""
        script = next((word for word in words if not word.startswith("-")), None)
        if script is not None and "/" not in script:
            (self.root / script).write_text("read line\n")
        process = subprocess.Popen(
            [name, *words], executable=program or self.command, cwd=self.root, env=self.env, stdin=subprocess.PIPE
        )
        self.started.append(process)
        return process.pid

    def stop(self) -> None:
        for process in self.started:
            process.kill()
            process.wait(60)
            if process.stdin is not None:
                process.stdin.close()


def recognise(pid: int) -> Recognised | None:
    table = ProcessTable()
    process = table.find(pid)
    assert process is not None
    return claude_code.recognise(process, table)
