"""An editor's side of the Agent Client Protocol: a CLI that serves sessions over its standard streams."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tests.contract.homes import Home
from tests.contract.processes import descendants, stop_all

ANSWER_SECONDS = 90.0


class AcpClient:
    """Starts the CLI, and talks to it. All that it started is gone at the end."""

    def __init__(self, argv: Sequence[str], home: Home, cwd: Path | None = None) -> None:
        self._process = subprocess.Popen(
            list(argv),
            cwd=cwd or home.work_dir,
            env=dict(home.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._lines: Queue[str] = Queue()
        self._sent = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> AcpClient:
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        return self

    def __exit__(self, *_: object) -> None:
        stop_all(descendants(self._process.pid))
        self._process.wait()
        self._reader.join()

    @property
    def pid(self) -> int:
        """The process that was started; the one that serves may be below it."""
        return self._process.pid

    def new(self, cwd: Path) -> str:
        return self.call("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]

    def load(self, session_id: str, cwd: Path) -> None:
        self.call("session/load", {"sessionId": session_id, "cwd": str(cwd), "mcpServers": []})

    def prompt(self, session_id: str, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self.call("session/prompt", {"sessionId": session_id, "prompt": content})

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result. Requests of the CLI's own are refused meanwhile; its notifications are dropped."""
        self._sent += 1
        number = self._sent
        self._send({"id": number, "method": method, "params": params})
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            message = self._receive(deadline, method)
            if "method" in message:
                if "id" in message:
                    self._send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})
            elif message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def _receive(self, deadline: float, what: str) -> dict[str, Any]:
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise TimeoutError(f"no answer to {what}") from None
            if line.startswith("{"):
                return json.loads(line)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
