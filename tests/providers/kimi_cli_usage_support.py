"""Lines of kimi-cli's wire.jsonl made to order, for the tests of what was spent."""

from __future__ import annotations

import json
from collections.abc import Iterable

from corral.providers.kimi_cli import usage as reading
from tests.providers.kimi_usage_support import WireLog

WORK_DIR = "/home/dev/projects/app"
BUCKET = "a4d2cd2663893c14bb5cfde43ebe3eb3"
AT = 1794771329.5
AGENT = "aab811f41"
LOG = WireLog(
    provider="kimi-cli",
    reader=reading.read_usage,
    scope=BUCKET,
    session_id="s",
    head=b'{"type": "metadata", "protocol_version": "1.10"}\n',
)
write, source, read, read_usage = LOG.write, LOG.source, LOG.read, LOG.read_usage


def record(kind: str, at: object = AT, **payload: object) -> bytes:
    return json.dumps({"timestamp": at, "message": {"type": kind, "payload": payload}}).encode() + b"\n"


def spent(
    at: object = AT, message_id: object = "chatcmpl-1", tokens: Iterable[object] = (10, 2, 30, 4), **more: object
) -> bytes:
    return record("StatusUpdate", at, token_usage=counts(tokens), message_id=message_id, plan_mode=False, **more)


def counts(tokens: Iterable[object]) -> dict[str, object]:
    names = ("input_other", "output", "input_cache_read", "input_cache_creation")
    return dict(zip(names, tokens, strict=True))


def mirrored(line: bytes, at: float, agent: str | None = AGENT, **names: object) -> bytes:
    """The line of a sub-agent as its parent's log repeats it."""
    who = {"parent_tool_call_id": "call_1", "agent_id": agent, "subagent_type": "coder"} if agent else names
    return record("SubagentEvent", at, **who, event=json.loads(line)["message"])


def shell(command: str, at: float = AT, call: str = "call_1", name: str = "Shell") -> bytes:
    function = {"name": name, "arguments": json.dumps({"command": command})}
    return record("ToolCall", at, type="function", id=call, function=function, extras=None)
