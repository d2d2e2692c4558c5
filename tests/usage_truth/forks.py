"""Sessions that were forked from one another, made by hand, below a HOME of their own."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

from corral.usage.changes import update_ledger
from corral.usage.ledger import Ledger
from corral.usage.rows import Pricer, Rows
from tests.unit.usage.readings import check_all
from tests.usage_truth.world import dump

BUCKET = ".kimi-code/sessions/wd_app_0123456789ab"
NOW = 1_791_000_000_000
G, P, C, D, TWIN = (f"session_{letter * 8}-0000-4000-8000-000000000000" for letter in "9b5a7")

Files = dict[str, bytes]


def line(record: Mapping[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def turn(at: int, tokens: int, agent: str = "main", *, prompt: str | None = None) -> bytes:
    """A prompt, a request and its usage: all that a turn leaves which counts."""
    usage = {"inputOther": tokens, "output": 0, "inputCacheRead": 0, "inputCacheCreation": 0}
    records: list[dict[str, Any]] = [
        {"type": "turn.prompt", "agentId": agent, "turnId": 1, "promptId": prompt or f"p{at}", "input": "x" * 90},
        {"type": "llm.request", "agentId": agent, "model": "m", "modelAlias": "a"},
        {"type": "usage.record", "agentId": agent, "model": "a", "usage": usage, "usageScope": "turn"},
        {"type": "turn.ended", "agentId": agent, "turnId": 1, "reason": "completed"},
    ]
    return b"".join(line(record | {"time": NOW + at + number}) for number, record in enumerate(records))


HEAD = line({"type": "metadata", "protocol_version": "1.5", "created_at": NOW})
FORKED = line({"type": "forked", "agentId": "main", "time": NOW})


def state(session_id: str, forked_from: str | None = None) -> Files:
    told = {"id": session_id, "version": 2, "cwd": "/src/app"} | ({"forkedFrom": forked_from} if forked_from else {})
    return {f"{BUCKET}/{session_id}/state.json": line(told)}


def wire(session_id: str, *lines: bytes, agent: str = "main", kept: bool = False) -> Files:
    name = "wire.jsonl.bak" if kept else "wire.jsonl"
    return {f"{BUCKET}/{session_id}/agents/{agent}/{name}": b"".join(lines)}


CHATS = ".qwen/projects/-src-app/chats"


def qwen_record(session_id: str, number: int, tokens: int, origin: str | None = None) -> bytes:
    """A request of Qwen; with `origin`, a copy of it in a fork."""
    event = {
        "event.name": "qwen-code.api_response",
        "event.timestamp": f"2026-10-05T10:00:{number:02d}.000Z",
        "response_id": f"r{number}",
        "model": "m",
        "input_token_count": tokens,
    }
    record = {"uuid": f"u{number}", "sessionId": session_id, "timestamp": event["event.timestamp"], "cwd": "/src/app"}
    record |= {"type": "system", "subtype": "ui_telemetry", "systemPayload": {"uiEvent": event}}
    return line(record | ({"forkedFrom": {"sessionId": origin, "messageUuid": f"u{number}"}} if origin else {}))


def qwen_month(session_id: str, number: int, tokens: int) -> bytes:
    """A line of Qwen's monthly file."""
    record = {"schemaVersion": 1, "id": f"m{number}", "timestamp": f"2026-10-05T10:01:{number:02d}.000Z", "model": "m"}
    return line(record | {"sessionId": session_id, "source": "main", "inputTokens": tokens, "outputTokens": 0})


class InterruptedLedger(Ledger):
    """A scan in another process: between its reading and its storing others do as they like."""

    def __init__(self, state_dir: str, between: Callable[[], None] | None) -> None:
        super().__init__(state_dir)
        self._between = between

    def store_rows(
        self, found: Iterable[Rows], pricer: Pricer | None, memos: Mapping[str, bytes] | None = None
    ) -> None:
        rows, between = list(found), self._between
        self._between = None
        if between is not None:
            between()
        super().store_rows(rows, pricer, memos)


class ForksHome:
    """A HOME in which files appear and go; and its ledger."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._numbers = count()
        self.path = root / ".local/state/corral/ledger.db"

    def write(self, files: Files) -> None:
        for path, data in files.items():
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)

    def append(self, path: str, data: bytes) -> None:
        with open(self.root / path, "ab") as file:
            file.write(data)

    def remove(self, files: Files) -> None:
        for path in files:
            os.remove(self.root / path)

    def age(self, files: Files, at: float) -> None:
        """As if they were last written then."""
        for path in files:
            os.utime(self.root / path, (at, at))

    def list_waiting(self) -> list[str]:
        with sqlite3.connect(self.path) as db:
            return [
                os.path.relpath(path, self.root) for (path,) in db.execute("SELECT path FROM sources WHERE deferred")
            ]

    def scan(self, between: Callable[[], None] | None = None, since: float | None = None) -> None:
        """With `between`, something is done meanwhile: when logs were read, and before that is stored."""
        ledger = InterruptedLedger(str(self.path.parent), between)
        try:
            update_ledger(ledger, since=since)
            check_all(ledger)
        finally:
            ledger.close()

    def result(self) -> list[tuple[object, ...]]:
        return dump(str(self.path))

    def total(self) -> int:
        with sqlite3.connect(self.path) as db:
            return db.execute("SELECT coalesce(sum(input), 0) FROM events").fetchone()[0]

    def owners(self) -> dict[int, str]:
        """The session that has each request, by its tokens."""
        query = "SELECT input, session_id FROM events JOIN sessions ON sessions.id = session"
        with sqlite3.connect(self.path) as db:
            return dict(db.execute(query))

    def damage(self, *statements: str) -> None:
        """And forget how everything looked, so that all is looked at again."""
        with sqlite3.connect(self.path) as db:
            for statement in (*statements, "DELETE FROM memo"):
                assert db.execute(statement).rowcount, statement
        db.close()

    def forget_copies(self) -> None:
        for number in (1, 2, 3):
            Path(f"{self.path}.{number}").unlink(missing_ok=True)

    def cold(self) -> list[tuple[object, ...]]:
        os.rename(self.path, f"{self.path}.{next(self._numbers)}")
        self.scan()
        return self.result()


@contextmanager
def forks_home() -> Iterator[ForksHome]:
    with tempfile.TemporaryDirectory() as folder:
        env = {"HOME": folder, "PATH": "/usr/bin:/bin"}
        with mock.patch.dict(os.environ, env, clear=True):
            yield ForksHome(Path(folder))


KILLED = turn(50, 0).splitlines(keepends=True)
CHAIN_G = HEAD + b"".join(KILLED[:2]) + turn(100, 1)
CHAIN_P = CHAIN_G + FORKED + turn(200, 10)
CHAIN: dict[str, Files] = {
    G: state(G) | wire(G, CHAIN_G),
    P: state(P, G) | wire(P, CHAIN_P),
    C: state(C, P) | wire(C, CHAIN_P, FORKED, turn(300, 100)),
    TWIN: state(TWIN) | wire(TWIN, CHAIN_G, turn(400, 1000)),
}
"""A session, a fork of it and a fork of that; and a stranger that begins just as they do. The first request was killed,
the others have 1, 10, 100 and 1000 tokens."""
