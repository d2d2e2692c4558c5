"""The OpenAI Responses API, as codex speaks it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.contract.model_calls import Billed, Call
from tests.contract.model_dialect import Asked, Dialect, ToolCall, event


class Responses(Dialect):
    """`POST …/responses`."""

    id_prefix = "resp_fake"

    def __init__(self) -> None:
        self._text = ""

    @classmethod
    def is_asked_at(cls, path: str) -> bool:
        return path.endswith("/responses")

    def read(self, path: str, body: Mapping[str, Any]) -> Asked:
        messages: list[Mapping[str, Any]] = [{"role": "system", "content": body.get("instructions") or ""}]
        messages += [message for item in body.get("input", []) if (message := _to_message(item)) is not None]
        return Asked(
            messages=messages,
            tools=list(_list_tools(body.get("tools") or [])),
            model=body.get("model", ""),
            stream=bool(body.get("stream")),
        )

    def whole(self, call: Call, tool: ToolCall | None, billed: Billed) -> Mapping[str, Any]:
        return _response(call, [_item(call, tool, call.answer)], billed)

    def begin(self, call: Call, billed: Billed) -> bytes:
        return _event("response.created", response={"id": call.completion_id})

    def say(self, call: Call, text: str) -> bytes:
        opened = b"" if self._text else _event("response.output_item.added", output_index=0, item=_item(call, None, ""))
        self._text += text
        item_id = f"msg_{call.completion_id}"
        return opened + _event(
            "response.output_text.delta", item_id=item_id, output_index=0, content_index=0, delta=text
        )

    def call_tool(self, call: Call, tool: ToolCall) -> bytes:
        return b""  # all of it comes at the end

    def end(self, call: Call, tool: ToolCall | None, billed: Billed) -> bytes:
        item = _item(call, tool, self._text)
        done = _event("response.output_item.done", output_index=0, item=item)
        return done + _event("response.completed", response=_response(call, [item], billed))


def _to_message(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    kind = item.get("type", "message")
    if kind == "message":
        role = item["role"]
        return {"role": "system" if role == "developer" else role, "content": item["content"]}
    if kind.endswith("_output"):
        return {"role": "tool", "content": str(item.get("output"))}
    return {"role": "assistant", "content": ""} if kind.endswith("_call") else None


def _list_tools(offered: Sequence[Mapping[str, Any]], namespace: str = "") -> list[Mapping[str, Any]]:
    """In the shape of Chat Completions; those of a namespace by its name, a dot and theirs."""
    found: list[Mapping[str, Any]] = []
    for tool in offered:
        if tool.get("type") == "namespace":
            found += _list_tools(tool.get("tools", []), f"{tool['name']}.")
        elif tool.get("type") == "function":
            function = {"name": namespace + tool["name"], "parameters": tool.get("parameters", {})}
            found.append({"type": "function", "function": function})
    return found


def _item(call: Call, tool: ToolCall | None, text: str) -> dict[str, Any]:
    if tool is None:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": f"msg_{call.completion_id}", "role": "assistant", "content": content}
    namespace, _, name = tool.name.rpartition(".")
    item = {"type": "function_call", "id": f"fc_{call.completion_id}", "call_id": tool.call_id, "name": name}
    if namespace:
        item["namespace"] = namespace
    return item | {"arguments": json.dumps(tool.arguments)}


def _response(call: Call, output: Sequence[Mapping[str, Any]], billed: Billed) -> dict[str, Any]:
    usage = {
        "input_tokens": billed.prompt,
        "input_tokens_details": {"cached_tokens": billed.cached},
        "output_tokens": billed.output,
        "output_tokens_details": {"reasoning_tokens": billed.reasoning},
        "total_tokens": billed.prompt + billed.output,
    }
    return {"id": call.completion_id, "object": "response", "status": "completed", "output": output, "usage": usage}


def _event(kind: str, **more: Any) -> bytes:
    return event({"type": kind, **more}, kind)
