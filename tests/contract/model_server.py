"""A fake model on 127.0.0.1 that speaks the dialects of several APIs, steered by words in the prompt.

What the last user message says decides the answer; everything else is the same each time:

    RUN:<command>    a call of the shell tool that this CLI offered
    AGENT:<text>     a call of its sub-agent tool; the sub-agent is told `SUBTASK <text>`
    ASK              a call of its question tool
    SLOW<seconds> …  an answer that trickles for so long, or until release()
    anything else    "ANSWER <number of the call> saw <number of messages>"

Every call is recorded. How an API is spoken is in the modules `model_<api>.py`, one dialect each.
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.contract.model_anthropic import AnthropicMessages
from tests.contract.model_calls import Billed, Call, Kind, steering_text, tell_kind, total
from tests.contract.model_chat import ChatCompletions
from tests.contract.model_dialect import Asked, Dialect, ToolCall
from tests.contract.model_responses import Responses
from tests.contract.model_tools import (
    AGENT,
    QUESTION,
    SHELL,
    agent_arguments,
    find_tool,
    question_arguments,
    shell_arguments,
)

MODEL = "fake-model"
OTHER_MODEL = "fake-other"
CONTEXT_TOKENS = 200_000
_SECRET_HEADERS = {"authorization", "cookie", "x-api-key", "proxy-authorization"}
_TICK_SECONDS = 0.1
_SLOW_SECONDS = 600
DIALECTS: tuple[type[Dialect], ...] = (ChatCompletions, AnthropicMessages, Responses)


class ModelServer:
    """Start it, point a CLI at `base_url`, look at `requests`. `outside`: attempts to reach other hosts."""

    def __init__(self) -> None:
        self.requests: list[Call] = []
        self.outside: list[str] = []
        self.slow_kinds: set[Kind] = set()
        """Calls of these kinds are answered slowly, as if their prompt said so."""
        self._changed = threading.Condition()
        self._released = threading.Event()
        self._http: ThreadingHTTPServer | None = None

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"model_server": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self.release()
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    @property
    def port(self) -> int:
        if self._http is None:
            raise RuntimeError("the model server is not started")
        return self._http.server_address[1]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def release(self) -> None:
        """Lets every slow answer that is under way finish now."""
        self._released.set()
        self._released = threading.Event()

    def totals(self) -> dict[Kind, Billed]:
        """What was billed, by kind of call. A killed call was billed nothing that its client could know."""
        return {kind: total(call for call in self.requests if call.kind is kind) for kind in Kind}

    def wait_for(self, predicate: Callable[[Call], bool], timeout: float = 60) -> Call:
        """The first recorded call that satisfies the predicate, now or within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                for call in self.requests:
                    if predicate(call):
                        return call
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    break
        seen = "\n".join(
            f"  {c.number} {c.kind} {c.prompt[:60]!r} done={c.done} killed={c.killed}" for c in self.requests[-20:]
        )
        raise TimeoutError(f"no such model call within {timeout} s; calls so far:\n{seen or '  none'}")

    # The rest is for the handler.

    def open_call(
        self, dialect: Dialect, asked: Asked, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[Call, threading.Event]:
        tools = [tool["function"]["name"] for tool in asked.tools]
        with self._changed:
            number = len(self.requests) + 1
            call = Call(
                number=number,
                kind=tell_kind(asked.messages, tools),
                model=asked.model,
                messages=asked.messages,
                tools=tools,
                prompt=steering_text(asked.messages),
                prompt_cache_key=body.get("prompt_cache_key"),
                headers=headers,
                completion_id=f"{dialect.id_prefix}{number:06d}",
                stream=asked.stream,
                extra={k: v for k, v in body.items() if k not in ("messages", "tools", "model", "stream")},
            )
            self.requests.append(call)
            self._changed.notify_all()
            return call, self._released

    def close_call(self, call: Call, *, billed: Billed | None, killed: bool) -> None:
        with self._changed:
            call.billed, call.killed, call.done = billed, killed, True
            self._changed.notify_all()


class _ClientGone(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model_server: ModelServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_CONNECT(self) -> None:
        self.model_server.outside.append(f"CONNECT {self.path}")
        self._send_json({"error": {"message": "loopback only"}}, status=403)

    def do_GET(self) -> None:
        if self._is_foreign():
            return
        if self.path.split("?")[0].rstrip("/").endswith("/models"):
            models = [
                {
                    "id": name,
                    "object": "model",
                    "created": 1,
                    "owned_by": "test",
                    "context_length": CONTEXT_TOKENS,
                }
                for name in (MODEL, OTHER_MODEL)
            ]
            self._send_json({"object": "list", "data": models})
        else:
            self._send_json({"error": {"message": "no such path"}}, status=404)

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self._is_foreign():
            return
        path = self.path.split("?")[0]
        dialect = next((one() for one in DIALECTS if one.is_asked_at(path)), None)
        if dialect is None:
            self._send_json({"error": {"message": "no such path"}}, status=404)
            return
        body = json.loads(raw)
        headers = {k.lower(): v for k, v in self.headers.items() if k.lower() not in _SECRET_HEADERS}
        asked = dialect.read(path, body)
        call, released = self.model_server.open_call(dialect, asked, body, headers)
        billed: Billed | None = None
        try:
            billed = self._answer(dialect, call, asked, released)
        except (_ClientGone, OSError):
            self.close_connection = True
        finally:
            self.model_server.close_call(call, billed=billed, killed=billed is None)

    def _is_foreign(self) -> bool:
        # With this server as the proxy of the CLI, whatever it asks of another host ends here, and is seen.
        if self.path.startswith("/") or f"//127.0.0.1:{self.server.server_address[1]}/" in self.path:
            return False
        self.model_server.outside.append(f"{self.command} {self.path}")
        self._send_json({"error": {"message": "loopback only"}}, status=403)
        return True

    def _answer(self, dialect: Dialect, call: Call, asked: Asked, released: threading.Event) -> Billed:
        tool = _tool_call(call, asked.tools)
        call.answer = "" if tool else f"ANSWER {call.number} saw {len(call.messages)}"
        if call.kind is Kind.COMPACTION:  # qwen-code wants its summary in this element
            call.answer = f"<state_snapshot>{call.answer}</state_snapshot>"
        billed = Billed(
            prompt=1000 + call.number,
            cached=600 if len(call.messages) > 3 else 0,
            output=20 + call.number,
            reasoning=5,
        )
        if not call.stream:
            self._send_json(dialect.whole(call, tool, billed))
            return billed
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        for name, value in dialect.headers(call).items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        self._write(dialect.begin(call, billed))
        slow = re.match(r"SLOW(\d+)", call.prompt) if call.kind in (Kind.TURN, Kind.SUBAGENT) else None
        if slow or call.kind in self.model_server.slow_kinds:
            self._trickle(dialect, call, int(slow[1]) if slow else _SLOW_SECONDS, released)
        self._write(dialect.call_tool(call, tool) if tool else dialect.say(call, call.answer))
        self._write(dialect.end(call, tool, billed))
        return billed

    def _trickle(self, dialect: Dialect, call: Call, seconds: int, released: threading.Event) -> None:
        deadline = time.monotonic() + seconds
        self._write(dialect.say(call, f"SLOWLY {call.number} "))
        while time.monotonic() < deadline and not released.wait(_TICK_SECONDS):
            self._write(dialect.say(call, ". "))
            self._require_client()

    def _require_client(self) -> None:
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise _ClientGone

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _send_json(self, data: Mapping[str, Any], status: int = 200) -> None:
        raw = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self._write(raw)


def _tool_call(call: Call, offered: Sequence[Mapping[str, Any]]) -> ToolCall | None:
    if call.kind not in (Kind.TURN, Kind.SUBAGENT):
        return None
    text = call.prompt.removeprefix("SUBTASK ")
    if text.startswith("RUN:") and (tool := find_tool(offered, SHELL)):
        arguments = shell_arguments(tool, text.removeprefix("RUN:").strip())
    elif text.startswith("AGENT:") and (tool := find_tool(offered, AGENT)):
        arguments = agent_arguments(tool, text.removeprefix("AGENT:").strip())
    elif text.startswith("ASK") and (tool := find_tool(offered, QUESTION)):
        arguments = question_arguments(tool)
    else:
        return None
    return ToolCall(f"call_fake{call.number:06d}", tool["name"], arguments)
