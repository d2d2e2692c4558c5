"""What the tests of kimi-cli share: the sessions of its fixture tree, and how it writes new ones."""

from __future__ import annotations

import json
from pathlib import Path

from corral.model.key import Home
from corral.model.record import SessionRecord, Skipped
from corral.providers.contract import Provider
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from tests.providers.kimi_support import picture
from tests.providers.reading import Memory

BUCKET = "a4d2cd2663893c14bb5cfde43ebe3eb3"
WORK_DIR = "/home/dev/projects/app"
NORMAL = "a0000001-0000-4000-8000-000000000001"
KILLED = "a0000003-0000-4000-8000-000000000003"
FORK = "7e15d1fd-f4f8-481e-b39a-19447678fe11"
LONG = "210c47d0-1a16-4305-a246-abbd19230f41"
SYSTEM_LINE = b'{"role": "_system_prompt", "content": "p"}\n{"role": "_checkpoint", "id": 0}\n'
USER_LINE = b'{"role": "user", "content": "hello"}\n'

provider: Provider = kimi_cli  # pyright checks the module against the Protocol


def home_at(path: Path, is_default: bool = False) -> Home:
    return Home(provider="kimi-cli", path=str(path), is_default=is_default, origin="test")


def listing(tree: Path, memory: Memory | None = None) -> list[SessionRecord | Skipped]:
    before = picture(tree)
    found = list(kimi_cli.list_sessions(home_at(tree), memory or Memory()))
    assert picture(tree) == before, "a listing never writes"
    return found


def sessions(tree: Path) -> dict[str, SessionRecord]:
    return {item.session_id: item for item in listing(tree) if isinstance(item, SessionRecord)}


def skipped(tree: Path) -> dict[str, str]:
    return {Path(item.path).name: item.reason for item in listing(tree) if isinstance(item, Skipped)}


def wire_line(kind: str, seconds: float = 1794772342.0, **payload: object) -> bytes:
    return json.dumps({"timestamp": seconds, "message": {"type": kind, "payload": payload}}).encode() + b"\n"


def make_session(
    bucket: Path, session_id: str, wire: bytes | None = None, context: bytes = SYSTEM_LINE + USER_LINE
) -> Path:
    directory = bucket / session_id
    directory.mkdir(parents=True)
    (directory / "context.jsonl").write_bytes(context)
    if wire is not None:
        (directory / "wire.jsonl").write_bytes(wire)
    return directory
