"""A HOME with kimi-cli sessions whose use is known, and corral run in it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any


class World:
    """A HOME in which kimi-cli sessions are written whose use is known."""

    zone = "UTC"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work_dir = self.work = root / "app"
        self.work_dir.mkdir()
        self.state = root / ".local" / "state" / "corral"
        self.bucket = root / ".kimi" / "sessions" / hashlib.md5(str(self.work_dir).encode()).hexdigest()
        self.bucket.mkdir(parents=True)
        entries = [{"path": str(self.work_dir), "kaos": "local", "last_session_id": None}]
        (root / ".kimi" / "kimi.json").write_text(json.dumps({"work_dirs": entries}))
        self.set_model("kimi-k2.5")
        self.number = 0

    def set_model(self, model: str) -> None:
        config = f'default_model = "x"\n[models.x]\nprovider = "p"\nmodel = "{model}"\nmax_context_size = 1\n'
        (self.root / ".kimi" / "config.toml").write_text(config)

    def line(self) -> str:
        """One recorded request of 400 + 600 input and 13 output tokens."""
        self.number += 1
        usage = {"input_other": 400, "output": 13, "input_cache_read": 600, "input_cache_creation": 0}
        payload = {"token_usage": usage, "message_id": f"chatcmpl-{self.number}"}
        at = 1_794_000_000 + self.number
        return json.dumps({"timestamp": at, "message": {"type": "StatusUpdate", "payload": payload}}) + "\n"

    def session(self, session_id: str, *lines: str) -> Path:
        place = self.bucket / session_id
        place.mkdir(exist_ok=True)
        (place / "context.jsonl").write_text('{"role": "user", "content": "x"}\n')
        with open(place / "wire.jsonl", "a") as file:
            file.write("".join(lines))
        return place / "wire.jsonl"

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "corral", "usage", "--tz", "UTC", *words]

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.root), "PATH": "/usr/bin:/bin"}

    def usage(self, *words: str) -> Any:
        done = subprocess.run(
            self.command("--json", *words), env=self.env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def events(self) -> int:
        total = self.usage()["total"]
        assert total["tokens"]["input"] == 400 * total["events"]
        assert total["tokens"]["cache_read"] == 600 * total["events"]
        assert total["tokens"]["output"] == 13 * total["events"]
        return total["events"]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Never a failure by itself: the exit code is for the test to judge."""
        command = [sys.executable, "-m", "corral", *words]
        env = self.env | {"TZ": self.zone} | variables
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def tear_first_page(ledger: Path, table: str) -> None:
    """The first page of this table: it shows only to who reads that."""
    _tear(ledger, _first_page(ledger, table))


def tear_last_page(ledger: Path, table: str) -> None:
    """That of its last rows."""
    page, content = _first_page(ledger, table), ledger.read_bytes()
    while content[(page - 1) * _PAGE] == _INTERIOR:
        page = int.from_bytes(content[(page - 1) * _PAGE + 8 :][:4])
    _tear(ledger, page)


_PAGE = 4096
_INTERIOR = 5
"""The first byte of a page that only names others, the last of them in its bytes 8 to 11."""


def _first_page(ledger: Path, table: str) -> int:
    with sqlite3.connect(ledger) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return root


def _tear(ledger: Path, page: int) -> None:
    data = bytearray(ledger.read_bytes())
    data[(page - 1) * _PAGE : page * _PAGE] = b"\xa5" * _PAGE
    ledger.write_bytes(bytes(data))
