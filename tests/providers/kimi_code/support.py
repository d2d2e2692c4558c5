"""What the tests of kimi-code share: the sessions of its fixture tree, and how it writes new ones."""

from __future__ import annotations

import json
from pathlib import Path

from corral.model.key import Home
from corral.model.record import SessionRecord, Skipped
from corral.providers.contract import Provider
from corral.providers.kimi_code import PROVIDER as kimi_code
from tests.providers.kimi_support import picture
from tests.providers.reading import Memory

BUCKET = "wd_app_b6c1126a8611"
WORK_DIR = "/home/dev/projects/app"
NORMAL = "session_bd47c1dc-f13d-4842-94c6-e43bccf641a5"
KILLED = "session_b5d16c74-8cdd-4afc-a622-17bf0a036863"
PARENT = "session_bd31fefe-b73e-4e68-9d14-4dcfd1e7cc56"
FORK = "session_e95b18ba-4b11-401d-8cc4-ec5fb430156f"
LONG = "session_8cb71ee6-732f-4bb5-882a-d6c940c0ef0b"
MIGRATED = "ses_a0000001-0000-4000-8000-000000000001"

provider: Provider = kimi_code  # pyright checks the module against the Protocol


def home_at(path: Path, is_default: bool = False) -> Home:
    return Home(provider="kimi-code", path=str(path), is_default=is_default, origin="test")


def listing(tree: Path, memory: Memory | None = None) -> list[SessionRecord | Skipped]:
    before = picture(tree)
    found = list(kimi_code.list_sessions(home_at(tree), memory or Memory()))
    assert picture(tree) == before, "a listing never writes"
    return found


def sessions(tree: Path) -> dict[str, SessionRecord]:
    return {item.session_id: item for item in listing(tree) if isinstance(item, SessionRecord)}


def skipped(tree: Path) -> set[str]:
    return {Path(item.path).name for item in listing(tree) if isinstance(item, Skipped)}


def event(kind: str, /, **fields: object) -> bytes:
    return json.dumps({"type": kind, "agentId": "main", "time": 1794771915758, **fields}).encode() + b"\n"


def make_session(bucket: Path, session_id: str, wire: bytes, **state: object) -> Path:
    directory = bucket / session_id
    (directory / "agents" / "main").mkdir(parents=True)
    (directory / "state.json").write_text(json.dumps({"id": session_id, "cwd": WORK_DIR, **state}))
    (directory / "agents" / "main" / "wire.jsonl").write_bytes(wire)
    return directory


def prompt(text: str, turn: object = 0) -> bytes:
    return event("turn.prompt", turnId=turn, input=[{"type": "text", "text": text}])
