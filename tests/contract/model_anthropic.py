"""The Messages API of Anthropic, as claude-code speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.contract.model_calls import Billed, Call, texts
from tests.contract.model_dialect import Asked, Dialect, ToolCall, event


class AnthropicMessages(Dialect):
    """`POST …/messages`. Text and tool calls are blocks, each begun and ended."""

    id_prefix = "msg_fake"

    def __init__(self) -> None:
        self._blocks = 0
        self._is_open = False

    @classmethod
    def is_asked_at(cls, path: str) -> bool:
        return path.endswith("/v1/messages")

    def read(self, path: str, body: Mapping[str, Any]) -> Asked:
        return Asked(
            messages=list(_flatten(body)),
            tools=[
                {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}
                for tool in body.get("tools") or []
                if "input_schema" in tool
            ],
            model=body.get("model", ""),
            stream=bool(body.get("stream")),
        )

    def headers(self, call: Call) -> Mapping[str, str]:
        return {"request-id": call.completion_id.replace("msg_", "req_")}

    def whole(self, call: Call, tool: ToolCall | None, billed: Billed) -> Mapping[str, Any]:
        content = [_tool_block(tool, tool.arguments)] if tool else [{"type": "text", "text": call.answer}]
        return _message(call, content, _stop_reason(tool), _usage(billed))

    def begin(self, call: Call, billed: Billed) -> bytes:
        return self._event("message_start", message=_message(call, [], None, _usage(billed) | {"output_tokens": 1}))

    def say(self, call: Call, text: str) -> bytes:
        begun = b"" if self._is_open else self._begin_block({"type": "text", "text": ""})
        self._is_open = True
        return begun + self._delta({"type": "text_delta", "text": text})

    def call_tool(self, call: Call, tool: ToolCall) -> bytes:
        said = self._end_block() + self._begin_block(_tool_block(tool, {}))
        self._is_open = True
        return said + self._delta({"type": "input_json_delta", "partial_json": json.dumps(tool.arguments)})

    def end(self, call: Call, tool: ToolCall | None, billed: Billed) -> bytes:
        delta = {"stop_reason": _stop_reason(tool), "stop_sequence": None}
        ended = self._end_block() + self._event("message_delta", delta=delta, usage=_usage(billed))
        return ended + self._event("message_stop")

    def _begin_block(self, block: Mapping[str, Any]) -> bytes:
        return self._event("content_block_start", index=self._blocks, content_block=block)

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return self._event("content_block_delta", index=self._blocks, delta=delta)

    def _end_block(self) -> bytes:
        if not self._is_open:
            return b""
        self._is_open = False
        self._blocks += 1
        return self._event("content_block_stop", index=self._blocks - 1)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return event({"type": kind, **fields}, kind)


def _flatten(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All instructions first, as one message; a tool's result as a message of its own."""
    system = body.get("system") or []
    instructions = [{"type": "text", "text": system}] if isinstance(system, str) else list(system)
    rest: list[Mapping[str, Any]] = []
    for message in body.get("messages", []):
        content = message["content"]
        if message["role"] == "system":  # claude-code 2.1.325 says things in between, too (2026-11)
            instructions += [{"type": "text", "text": text} for text in texts(message)]
        elif isinstance(content, str) or not any(part["type"] == "tool_result" for part in content):
            rest.append(message)
        else:
            results = [part for part in content if part["type"] == "tool_result"]
            rest += [{"role": "tool", "content": part.get("content")} for part in results]
            if others := [part for part in content if part["type"] != "tool_result"]:
                rest.append({"role": message["role"], "content": others})
    yield {"role": "system", "content": instructions}
    yield from rest


def _message(call: Call, content: list[Any], stop_reason: str | None, usage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": call.completion_id,
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _tool_block(tool: ToolCall, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool.call_id.replace("call_", "toolu_"), "name": tool.name, "input": arguments}


def _stop_reason(tool: ToolCall | None) -> str:
    return "tool_use" if tool else "end_turn"


def _usage(billed: Billed) -> dict[str, Any]:
    return {
        "input_tokens": billed.prompt - billed.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": billed.cached,
        "output_tokens": billed.output,
        "output_tokens_details": {"thinking_tokens": billed.reasoning},
    }
