"""The Chat Completions API, as kimi-cli, kimi-code and qwen-code speak it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from tests.contract.model_calls import Billed, Call
from tests.contract.model_dialect import Asked, Dialect, ToolCall, event


class ChatCompletions(Dialect):
    """`POST …/chat/completions`."""

    id_prefix = "chatcmpl-fake"

    @classmethod
    def is_asked_at(cls, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read(self, path: str, body: Mapping[str, Any]) -> Asked:
        return Asked(
            messages=body.get("messages", []),
            tools=[tool for tool in body.get("tools") or [] if "function" in tool],
            model=body.get("model", ""),
            stream=bool(body.get("stream")),
        )

    def whole(self, call: Call, tool: ToolCall | None, billed: Billed) -> Mapping[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": call.answer or None}
        if tool:
            message["tool_calls"] = [_function(tool)]
        choice = {"index": 0, "message": message, "finish_reason": _finish(tool)}
        return _envelope(call, "chat.completion") | {"choices": [choice], "usage": _usage(billed)}

    def begin(self, call: Call, billed: Billed) -> bytes:
        return _chunk(call, {"role": "assistant", "content": ""})

    def say(self, call: Call, text: str) -> bytes:
        return _chunk(call, {"content": text})

    def call_tool(self, call: Call, tool: ToolCall) -> bytes:
        return _chunk(call, {"tool_calls": [_function(tool) | {"index": 0}]})

    def end(self, call: Call, tool: ToolCall | None, billed: Billed) -> bytes:
        usage = _envelope(call, "chat.completion.chunk") | {"choices": [], "usage": _usage(billed)}
        return _chunk(call, {}, finish=_finish(tool)) + event(usage) + b"data: [DONE]\n\n"


def _finish(tool: ToolCall | None) -> str:
    return "tool_calls" if tool else "stop"


def _function(tool: ToolCall) -> dict[str, Any]:
    function = {"name": tool.name, "arguments": json.dumps(tool.arguments)}
    return {"id": tool.call_id, "type": "function", "function": function}


def _chunk(call: Call, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event(_envelope(call, "chat.completion.chunk") | {"choices": [choice]})


def _envelope(call: Call, kind: str) -> dict[str, Any]:
    return {"id": call.completion_id, "object": kind, "created": int(time.time()), "model": call.model}


def _usage(billed: Billed) -> dict[str, Any]:
    return {
        "prompt_tokens": billed.prompt,
        "completion_tokens": billed.output,
        "total_tokens": billed.prompt + billed.output,
        "cached_tokens": billed.cached,  # Moonshot's own place for it, beside the usual one
        "prompt_tokens_details": {"cached_tokens": billed.cached},
        "completion_tokens_details": {"reasoning_tokens": billed.reasoning},
    }
