"""A CLI that serves sessions over HTTP on loopback, and requests to it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from tests.contract.homes import Home
from tests.contract.processes import descendants, stop_all

START_SECONDS = 90.0
ANSWER_SECONDS = 90.0


class WebServer:
    """Starts the CLI with `--port N`, waits until it answers, and ends all of it."""

    def __init__(self, argv: Sequence[str], home: Home, *, root: str, probe: str) -> None:
        """`root` is the path before all others, `probe` one that answers 200 when the server is up."""
        self.port = _free_port()
        self._root, self._probe = root, probe
        self._process = subprocess.Popen(
            [*argv, "--port", str(self.port)],
            cwd=home.work_dir,
            env=dict(home.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> WebServer:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.ask("GET", self._probe)
                return self
            except OSError as error:
                if time.monotonic() > deadline:
                    self.__exit__()
                    raise TimeoutError(f"no answer on port {self.port}: {error}") from None
                time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        stop_all(descendants(self._process.pid))
        self._process.wait()

    @property
    def pid(self) -> int:
        """The process that was started; the one that serves may be below it."""
        return self._process.pid

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer, decoded. A refusal is an OSError with its text."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{self._root}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={} if body is None else {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                request, timeout=ANSWER_SECONDS
            ) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise OSError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
