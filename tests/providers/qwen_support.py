"""What the tests of Qwen Code share: a home that a test may spoil, the lines Qwen writes, and its installation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corral.model.claim import BadClaim, Claim
from corral.model.key import Home
from corral.model.record import SessionRecord, Skipped
from corral.providers.contract import Environment
from corral.providers.qwen_code import PROVIDER as qwen_code
from tests.providers.evidence import all_claims
from tests.providers.reading import Memory

FIXTURES = Path(__file__).parent / "fixtures" / "qwen-code" / "home"
SCOPE = "-home-dev-projects-app"
TWICE_OPENED = "11111111-1111-4111-8111-111111111111"
CANCELLED = "33333333-3333-4333-8333-333333333333"
KILLED_IN_TOOL = "44444444-4444-4444-8444-444444444445"
WITH_TOOL = "5a5a5a5a-5a5a-4a5a-8a5a-5a5a5a5a5a5a"
FORK = "6ec99149-5ae7-4708-8fbf-9cbeec7623ec"
UNSPOKEN = "1e105a58-0825-48c1-a120-d797664e3381"
NEW_ID = "aaaaaaaa-0000-4000-8000-00000000000a"


class Place:
    """A copy of the fixture home that a test may spoil."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(provider=qwen_code.name, path=str(root), is_default=True, origin="default")
        self.chats = root / "projects" / SCOPE / "chats"
        self.registry = root / "sessions"

    def listing(self, memory: Memory | None = None) -> list[SessionRecord | Skipped]:
        return list(qwen_code.list_sessions(self.home, memory or Memory()))

    def records(self) -> dict[str, SessionRecord]:
        return {entry.session_id: entry for entry in self.listing() if isinstance(entry, SessionRecord)}

    def skipped(self) -> dict[str, str]:
        return {Path(entry.path).name: entry.reason for entry in self.listing() if isinstance(entry, Skipped)}

    def claims(self) -> list[Claim | BadClaim]:
        return all_claims(qwen_code, self.home)

    def transcript(self, session_id: str) -> Path:
        return self.chats / f"{session_id}.jsonl"

    def lines(self, session_id: str) -> list[bytes]:
        return self.transcript(session_id).read_bytes().splitlines(keepends=True)

    def write(self, *lines: bytes, session_id: str = NEW_ID) -> SessionRecord:
        self.transcript(session_id).write_bytes(b"".join(lines))
        return self.records()[session_id]

    def register(self, name: str = "4242.json", **changes: Any) -> Claim | BadClaim:
        fields = json.loads((FIXTURES / "sessions" / "4337.json").read_text()) | {"pid": 4242} | changes
        path = self.registry / name
        path.write_text(json.dumps({key: value for key, value in fields.items() if value is not ...}))
        return next(claim for claim in self.claims() if claim.path == str(path))


def record(kind: str = "user", text: str | None = "hello", **fields: Any) -> bytes:
    """One line as Qwen writes it."""
    base: dict[str, Any] = {
        "uuid": fields.pop("uuid", "u1"),
        "parentUuid": None,
        "sessionId": NEW_ID,
        "timestamp": "2026-11-15T19:00:00.000Z",
        "type": kind,
        "cwd": "/home/dev/projects/app",
    }
    if text is not None:
        base["message"] = {"role": "model" if kind == "assistant" else "user", "parts": [{"text": text}]}
    return json.dumps(base | fields).encode() + b"\n"


def environment(home_dir: Path, variables: dict[str, str] | None = None, extra: tuple[str, ...] = ()) -> Environment:
    return Environment(home_dir=str(home_dir), variables=variables or {}, extra_homes={qwen_code.name: extra})


def install(root: Path, version: str = "0.24.4", product: str = "@qwen-code/qwen-code") -> Path:
    """An npm installation as it lies on disk, with a `qwen` command."""
    package = root / "lib" / "node_modules" / product
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": product, "version": version}))
    for name in ("cli-entry.js", "cli.js"):
        (package / name).write_text("#!/usr/bin/env node\n")
        (package / name).chmod(0o755)
    (root / "bin").mkdir()
    (root / "bin" / "qwen").symlink_to(package / "cli-entry.js")
    return root / "bin" / "qwen"
