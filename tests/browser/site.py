"""A HOME of a test's own with the reference agent installed, and `corral serve` running in it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from corral.terminals.directory import list_terminals
from tests.integration.server.serving import free_port
from tests.integration.terminals.held import kill, wait_until
from tests.integration.terminals.world import World

START_SECONDS = 60


class Site(World):
    """What a person has: a machine with agents, and the server. It can be killed and started again."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        """For programs; the page has a name of its own."""
        self.errors = (root / "serve.err").open("w")
        self.server: subprocess.Popen[str] | None = None
        self.command = [sys.executable, "-m", "corral"]

    def start(self) -> str:
        """Start the server; returns the link that logs one browser in."""
        self.server = subprocess.Popen(
            [*self.command, "serve", "--port", str(self.port)],
            env=self.env,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )
        assert self.server.stdout is not None
        link = self.server.stdout.readline().strip()
        assert link.startswith("http://corral-"), (link, Path(self.errors.name).read_text())
        return link

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self.server is not None:
            self.server.send_signal(number)
            self.server.wait(START_SECONDS)
            assert self.server.stdout is not None
            self.server.stdout.close()
            self.server = None

    def link(self) -> str:
        """A new link that logs one browser in."""
        return self.corral("url").stdout.strip()

    def api(self, path: str) -> Any:
        return self._ask(urllib.request.Request(f"{self.address}/api/{path}", headers=self._headers()))

    def post(self, path: str, body: object) -> Any:
        headers = self._headers() | {"Content-Type": "application/json", "X-Corral": "1", "Origin": self.address}
        data = json.dumps(body).encode()
        return self._ask(urllib.request.Request(f"{self.address}/api/{path}", data, headers, method="POST"))

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {(self.state / 'server' / 'token').read_text().strip()}"}

    def _ask(self, request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def tabs(self) -> list[Any]:
        return self.api("tabs")["tabs"]

    def write_session(self, number: int, *, title: str, unfinished: bool = False, folder: str = "work") -> str:
        """A session on disk as the reference agent leaves it, without running it."""
        from corral.demo.conversation import Home, Session, take_turn

        work = self.root / folder
        work.mkdir(exist_ok=True)
        home = Home(self.root / ".kimi", str(work))
        assert home.prepare() is None
        session = Session(home, f"00000000-0000-4000-8000-{number:012d}").create(title)
        take_turn(session, f"prompt {number}")
        if unfinished:
            session.emit("TurnBegin", user_input="run the migration")
        home.register(session.id)
        return session.id

    def kill_holders(self) -> None:
        """As a power cut would: every terminal is gone, with what ran in it."""
        for terminal in list_terminals(str(self.state / "terminals")):
            for identity in (terminal.holder, terminal.child):
                if identity is not None:
                    kill(identity)

    def wait_for_tabs(self, state: str, number: int) -> None:
        wait_until(lambda: sum(tab["state"] == state for tab in self.tabs()) == number, f"{number} tabs {state}")

    def end(self) -> None:
        self.stop()
        self.errors.close()
        super().end()
