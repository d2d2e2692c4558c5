"""Transcripts and monthly files of Qwen Code for the tests of what was spent: recorded ones, and lines made to order."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from corral.model.key import Home
from corral.model.usage import TokenUsage, UsageBatch, UsageEvent, UsageSource
from corral.providers.kit.usage_files import read_source
from corral.providers.qwen_code import usage as reading
from corral.providers.qwen_code.homes import NAME
from corral.providers.qwen_code.usage import list_usage_sources


def read_usage(source: UsageSource, since: int) -> UsageBatch:
    return read_source(reading.read_usage, source, since)


FIXTURES = Path(__file__).parent / "fixtures" / "qwen-code"
SCOPE = "-home-dev-projects-app"
FORKED = "11111111-1111-4111-8111-111111111111"
FORK = "6ec99149-5ae7-4708-8fbf-9cbeec7623ec"
CANCELLED = "33333333-3333-4333-8333-333333333333"
KILLED_IN_TOOL = "44444444-4444-4444-8444-444444444445"
WITH_TOOL = "5a5a5a5a-5a5a-4a5a-8a5a-5a5a5a5a5a5a"
WITH_AGENT = "46ac6bcd-fca8-4955-a162-c6b6b4c5436d"
SESSION = "aaaaaaaa-0000-4000-8000-00000000000a"
GONE = "b6b6b6b6-b6b6-46b6-86b6-b6b6b6b6b6b6"
CANARY = "CANARY-NOT-A-SECRET"
SOON: dict[str, Any] = {"event.timestamp": "soon"}
AT = "2026-11-15T19:24:33.380Z"


def home_at(path: Path) -> Home:
    return Home(provider=NAME, path=str(path), is_default=False, origin="test", places={"runtime": str(path)})


def recorded_home(tmp_path: Path) -> Home:
    """The recorded home, writable; a whole fork, a session with a sub-agent, and the monthly file of two others."""
    shutil.copytree(FIXTURES / "home", tmp_path / "home")
    for session_id in (FORK, WITH_AGENT):
        chats = tmp_path / "home" / "projects" / SCOPE / "chats"
        shutil.copy(FIXTURES / f"usage-{session_id}.jsonl", chats / f"{session_id}.jsonl")
    (tmp_path / "home" / "usage").mkdir()
    shutil.copy(FIXTURES / "token-usage-2026-11.jsonl", tmp_path / "home" / "usage")
    return home_at(tmp_path / "home")


def read_all(home: Home) -> dict[str, UsageBatch]:
    return {os.path.basename(source.path): read_usage(source, 0) for source in list_usage_sources(home)}


def total(events: list[UsageEvent]) -> TokenUsage:
    return sum((event.tokens for event in {event.key: event for event in events}.values()), TokenUsage())


def response(number: int = 1, **changes: Any) -> dict[str, Any]:
    event = {
        "event.name": "qwen-code.api_response",
        "event.timestamp": AT,
        "response_id": f"chatcmpl-{number}",
        "model": "qwen3-coder-plus",
        "input_token_count": 1000,
        "output_token_count": 50,
        "cached_content_token_count": 600,
        "thoughts_token_count": 20,
        "total_token_count": 1050,
        "response_text": CANARY,
    }
    return record("system", f"u{number}", subtype="ui_telemetry", systemPayload={"uiEvent": event | changes})


def tool_call(uuid: str, name: str, args: object) -> dict[str, Any]:
    event = {"event.name": "qwen-code.tool_call", "call_id": "call_0", "function_name": name, "function_args": args}
    return record("system", uuid, subtype="ui_telemetry", systemPayload={"uiEvent": event})


def record(kind: str, uuid: str, **fields: Any) -> dict[str, Any]:
    return {"uuid": uuid, "parentUuid": None, "sessionId": SESSION, "timestamp": AT, "type": kind, **fields}


def prompt(uuid: str, text: str, **fields: Any) -> dict[str, Any]:
    return record("user", uuid, message={"role": "user", "parts": [{"text": text}]}, **fields)


def line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def write(tmp_path: Path, *lines: bytes, session_id: str = SESSION) -> UsageSource:
    chats = tmp_path / "projects" / SCOPE / "chats"
    chats.mkdir(parents=True, exist_ok=True)
    (chats / f"{session_id}.jsonl").write_bytes(b"".join(lines))
    return next(source for source in list_usage_sources(home_at(tmp_path)) if source.session_id == session_id)


def write_month(tmp_path: Path, *lines: bytes) -> UsageSource:
    (tmp_path / "usage").mkdir(exist_ok=True)
    (tmp_path / "usage" / "token-usage-2026-11.jsonl").write_bytes(b"".join(lines))
    return next(source for source in list_usage_sources(home_at(tmp_path)) if not source.session_id)


def month_line(number: int, session_id: str, **changes: Any) -> bytes:
    tokens = {"inputTokens": 1000, "outputTokens": 50, "cachedTokens": 600, "thoughtsTokens": 20, "totalTokens": 1050}
    names = {"id": f"id-{number}", "timestamp": AT, "sessionId": session_id, "model": "m", "source": "main"}
    return line(tokens | names | changes)
