"""A running `corral serve` in a world of its own, and clients that speak to it as the page does."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from corral.server.event_stream import EVENTS
from tests.integration.server.visitor import Visitor
from tests.integration.terminals.held import WAIT_SECONDS, wait_until

START_SECONDS = 60.0
LIVE, REPLAY, MODES = 0, 1, 2


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def reason(self) -> str:
        return self.body["error"]["reason"]


class Place(Protocol):
    """Where a server runs: a HOME of a test's own."""

    root: Path
    work: Path
    state: Path
    env: dict[str, str]

    def corral(self, *words: str) -> subprocess.CompletedProcess[str]: ...


class Serving:
    """One server process, which may be killed and started again; its world outlives it."""

    def __init__(self, world: Place, *words: str, preexec: Sequence[str] = (), **env: str) -> None:
        """`preexec` is put before the command, as `prlimit` is."""
        self.world = world
        self._preexec = preexec
        # Of its own, so that no other test's server takes it while this one is down.
        self._words = words if "--port" in words else ("--port", str(free_port()), *words)
        self._env = env
        self.process: subprocess.Popen[str] | None = None
        self.link = ""
        self.start()

    def spawn(self) -> None:
        """Start it and wait for nothing."""
        self.process = subprocess.Popen(
            [*self._preexec, sys.executable, "-m", "corral", "serve", *self._words],
            env={**self.world.env, **self._env},
            cwd=self.world.work,
            stdout=subprocess.PIPE,
            stderr=open(self.world.root / "serve.err", "a"),  # noqa: SIM115 - the child's
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def start(self) -> None:
        self.spawn()
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        assert ready, "the server said nothing"
        self.link = self.process.stdout.readline().strip()
        assert self.link.startswith("http://corral-"), (self.link, self.errors())

    def errors(self) -> str:
        return (self.world.root / "serve.err").read_text()

    @property
    def files(self):
        return self.world.state / "server"

    @property
    def port(self) -> int:
        return int((self.files / "port").read_text())

    @property
    def host(self) -> str:
        """Under which the page is served."""
        return self.link.partition("//")[2].partition("/")[0]

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    @property
    def token(self) -> str:
        return (self.files / "token").read_text()

    def code(self) -> str:
        return self.link.partition("#code=")[2]

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Returns its exit code."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(number)
        code = process.wait(WAIT_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code

    # --- requests

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """As the command line does: with the token, from the right origin."""
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        return self.raw(method, path, body, headers=headers, **more)

    def raw(self, method: str, path: str, body: object = None, *, headers: dict[str, str | None]) -> Answer:
        """Only what is given, on top of what every change needs; a header that is None is not sent."""
        given: dict[str, str | None] = {"Host": self.host}
        if method not in ("GET", "HEAD"):
            given |= {"Content-Type": "application/json", "X-Corral": "1", "Origin": self.origin}
        given |= headers
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            data = b"" if body is None else json.dumps(body).encode()
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if method not in ("GET", "HEAD"):
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data or None)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        is_json = (response.getheader("content-type") or "").startswith("application/json")
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, json.loads(text) if is_json and text else text)

    def log_in(self, code: str | None = None) -> Visitor:
        """A browser that is logged in from now on."""
        return Visitor(self, code or self.new_code())

    def new_code(self) -> str:
        done = self.world.corral("url")
        assert done.returncode == 0, done
        return done.stdout.strip().partition("#code=")[2]

    def sessions(self) -> dict[str, Any]:
        found = self.ask("GET", "/api/sessions").body["sessions"]
        return {one["session_id"]: one for one in found if one["home"].startswith(str(self.world.root))}

    def tabs(self) -> dict[str, Any]:
        return {one["tab"]: one for one in self.ask("GET", "/api/tabs").body["tabs"]}

    def start_tab(self, **more: Any) -> str:
        """A reference agent that has said which session it has."""
        body = {"provider": "kimi-cli", "work_dir": str(self.world.work), "trust": True, "live_only": True, **more}
        answer = self.ask("POST", "/api/tabs", body)
        assert answer.status == 201, answer
        tab = answer.body["tab"]
        self.wait_for_tab(tab, lambda one: one["ref"] and one["state"] == "running")
        return tab

    def wait_for_tab(self, tab: str, test: Any, seconds: float = WAIT_SECONDS) -> Any:
        found: list[Any] = []

        def look() -> bool:
            found[:] = [self.tabs().get(tab)]
            return found[0] is not None and bool(test(found[0]))

        wait_until(look, f"tab {tab}", seconds)
        return found[0]

    def terminal(
        self,
        tab: str,
        offset: int | None = None,
        visitor: Visitor | None = None,
        size: tuple[int, int] = (80, 24),
        **more: Any,
    ) -> Viewer:
        connection = connect(
            f"ws://{self.host}/api/tabs/{tab}/terminal",
            sock=socket.create_connection(("127.0.0.1", self.port), WAIT_SECONDS),
            origin=self.origin,  # type: ignore[arg-type]
            additional_headers={} if visitor else {"Authorization": f"Bearer {self.token}"},
            subprotocols=visitor.protocols() if visitor else None,  # type: ignore[arg-type]
            compression=None,
            max_size=None,
            open_timeout=WAIT_SECONDS,
            ping_interval=None,  # a test that is slow, or that does not read, is no lost connection
            legacy=True,
        )
        return Viewer(connection, offset, *size, **more)

    def events(self, after: int | None = None, visitor: Visitor | None = None) -> EventReader:
        return EventReader(self, after, visitor)


class Viewer:
    """The page's side of a terminal."""

    def __init__(
        self,
        socket: ClientConnection,
        offset: int | None,
        columns: int = 80,
        rows: int = 24,
        terminal: str | None = None,
        first: bytes = b"",
    ) -> None:
        """`terminal` is the one that the offset counts in; `first` is typed before any answer is read."""
        self.socket = socket
        self.data = b""
        self.begin = 0
        self.controls: list[Any] = []
        self.acknowledges = True
        wanted = {"attach": offset, "columns": columns, "rows": rows, "visible": True, "terminal": terminal}
        socket.send(json.dumps(wanted))
        if first:
            self.type(first)
        while not any("attached" in one for one in self.controls):
            self.step()
        self.begin = self.controls[-1]["attached"]["offset"]

    @property
    def end(self) -> int:
        return self.begin + len(self.data)

    def step(self, seconds: float | None = WAIT_SECONDS) -> tuple[int, bytes] | None:
        """One message, written down; returns the kind and the bytes of what is to be shown."""
        message = self.socket.recv(seconds)
        if isinstance(message, str):
            self.controls.append(json.loads(message))
            return None
        kind, offset = message[0], int.from_bytes(message[1:9])
        if kind == MODES:
            return kind, message[9:]
        assert offset == self.end, f"bytes from {offset} follow those up to {self.end}"
        self.data += message[9:]
        if self.acknowledges:
            with contextlib.suppress(ConnectionClosed):  # the rest is read first
                self.socket.send(json.dumps({"ack": self.end}))
        return kind, message[9:]

    def read_until(self, text: bytes, seconds: float = WAIT_SECONDS) -> bytes:
        deadline = time.monotonic() + seconds
        while text not in self.data:
            assert time.monotonic() < deadline, self.data[-500:]
            self.step(seconds)
        return self.data

    def type(self, data: bytes) -> None:
        self.socket.send(b"\0" + data)

    def close(self) -> None:
        self.socket.close()


class EventReader:
    """Server-sent events, one after the other."""

    def __init__(self, serving: Serving, after: int | None, visitor: Visitor | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=WAIT_SECONDS)
        headers = dict(visitor.headers) if visitor else {"Authorization": f"Bearer {serving.token}"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        self._connection.request("GET", "/api/events", headers={"Host": serving.host, **headers})
        self._response = self._connection.getresponse()
        assert self._response.status == 200

    def __iter__(self) -> Iterator[tuple[int, str, Any]]:
        number, name = 0, ""
        while line := self._response.readline():
            key, _, value = line.decode().rstrip("\n").partition(": ")
            if key == "id":
                number = int(value)
            elif key == "event":
                name = value
            elif key == "data":
                body = json.loads(value)
                told = msgspec.convert(body, EVENTS[name])
                assert json.loads(msgspec.json.encode(told)) == body, f"{name} is not as described: {body}"
                yield number, name, body

    def wait_for(self, name: str, test: Any = lambda body: True, seconds: float = WAIT_SECONDS) -> tuple[int, Any]:
        """The number and the body of the next event of that name that passes the test."""
        deadline = time.monotonic() + seconds
        for number, found, body in self:
            if found == name and test(body):
                return number, body
            if time.monotonic() > deadline:  # the server's heartbeat comes in any case
                raise TimeoutError(f"no such {name} in {seconds:.0f} s")
        raise AssertionError(f"the stream ended before a {name}")

    def close(self) -> None:
        self._connection.close()


def free_port() -> int:
    """Below those that the kernel gives away by itself."""
    for _ in range(100):
        port = random.randrange(11_000, 30_000)  # browsers refuse 10080, the last port on their list
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
