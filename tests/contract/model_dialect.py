"""A dialect of the fake model: how one API is asked, and how its answers are written."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.contract.model_calls import Billed, Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request in the shape that all dialects share, which is that of the Chat Completions API."""

    messages: Sequence[Mapping[str, Any]]
    """Each with `role` (system, user, assistant, tool) and `content` (a text, or parts with `text`)."""
    tools: Sequence[Mapping[str, Any]]
    """Each `{"type": "function", "function": {"name": …, "parameters": …}}`."""
    model: str
    stream: bool


class ToolCall(NamedTuple):
    """What the model wants to be run."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]


class Dialect:
    """One is made for each request, and may count its own events."""

    id_prefix: str
    """How the ids of answers begin."""

    @classmethod
    @abstractmethod
    def is_asked_at(cls, path: str) -> bool:
        """Whether requests in this dialect come to this path, which has no query."""

    @abstractmethod
    def read(self, path: str, body: Mapping[str, Any]) -> Asked: ...

    def headers(self, call: Call) -> Mapping[str, str]:
        """What a streamed answer has in its head beside the usual."""
        return {}

    @abstractmethod
    def whole(self, call: Call, tool: ToolCall | None, billed: Billed) -> Mapping[str, Any]:
        """The answer to a request that asked for no stream: the call's text, or a tool to run."""

    # A stream is begun, says pieces of text, calls a tool or says more, and is ended: each step in its bytes.

    @abstractmethod
    def begin(self, call: Call, billed: Billed) -> bytes: ...

    @abstractmethod
    def say(self, call: Call, text: str) -> bytes: ...

    @abstractmethod
    def call_tool(self, call: Call, tool: ToolCall) -> bytes: ...

    @abstractmethod
    def end(self, call: Call, tool: ToolCall | None, billed: Billed) -> bytes: ...


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()
