"""The terminal servers, each started and spoken to in its own way: corral, terminado, and node-pty with ws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from usage_kit.peers import cache_root, install_node, install_packages, install_wheels, package_version

from terminals_kit.websocket import WebSocket

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from corral.sidecar.processes import read_identity
from corral.terminals.start import Started, start_terminal
from corral.version import __version__

HERE = Path(__file__).resolve().parent
DRIVER = ("/bin/sh", "-c", 'trap : INT; while read -r line; do eval "$line"; done')
"""What runs in every terminal: it does what is typed, and survives Ctrl-C."""
NODE_PACKAGES = ("@lydell/node-pty", "ws")
WHEELS = ("terminado", "tornado")
ACK_BYTES = 128 << 10
"""As corral's page does it."""


class View(Protocol):
    """One connection to one terminal."""

    socket: WebSocket

    def type(self, data: bytes) -> None: ...
    def read(self) -> bytes:
        """What has come, at least something. It may be wrapped in JSON: good for finding plain words in it."""
        ...


class Side(Protocol):
    """A server that runs."""

    name: str
    version: str

    def connect(self, terminal: str) -> View:
        """To the terminal of that name, which is started if there is none."""
        ...

    def pids(self) -> list[int]:
        """What serves, without what runs in the terminals."""
        ...

    def stop(self) -> None: ...


def read_until(view: View, marker: bytes) -> None:
    tail = b""
    while marker not in tail:
        data = view.read()
        assert data, f"closed before {marker!r}"
        tail = tail[-len(marker) :] + data if len(data) < 4096 else data


class CorralView:
    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self._acknowledged = 0
        socket.send(b'{"attach": null, "columns": 80, "rows": 24, "visible": true}', text=True)

    def type(self, data: bytes) -> None:
        self.socket.send(b"\0" + data)

    def read(self) -> bytes:
        parts: list[bytes] = []
        end = 0
        for payload in self.socket.receive():
            if payload[0] < 2:
                parts.append(payload[9:])
                end = int.from_bytes(payload[1:9]) + len(payload) - 9
            else:
                parts.append(payload)
        if end - self._acknowledged >= ACK_BYTES:
            self._acknowledged = end
            self.socket.send(b'{"ack": %d}' % end, text=True)
        return b"".join(parts)


class Corral:
    name = "corral"
    version = __version__

    def __init__(self, root: Path) -> None:
        self._root = root / "corral"
        self._root.mkdir()
        self._state = self._root / ".local" / "state" / "corral"
        self._terminals: dict[str, Started] = {}
        self._env = {"HOME": str(self._root), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "corral", "serve"],
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._root,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline(), "corral serve did not start"
        self._port = int((self._state / "server" / "port").read_text())
        self._headers = {
            "Authorization": f"Bearer {(self._state / 'server' / 'token').read_text()}",
            "Origin": f"http://127.0.0.1:{self._port}",
        }

    def connect(self, terminal: str) -> CorralView:
        if terminal not in self._terminals:
            self._terminals[terminal] = start_terminal(
                str(self._state / "terminals"), DRIVER, cwd="/", env=self._env, columns=80, rows=24
            )
        tab = self._terminals[terminal].tab
        return CorralView(WebSocket(self._port, f"/api/tabs/{tab}/terminal", self._headers))

    def pids(self) -> list[int]:
        return [self._server.pid, *(one.holder.pid for one in self._terminals.values())]

    def stop(self) -> None:
        self._server.kill()
        self._server.wait()
        for one in self._terminals.values():
            for identity in (one.child, one.holder):
                if read_identity(identity.pid) == identity:
                    os.kill(identity.pid, 9)


class PlainView:
    """Bytes as they are, both ways."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket

    def type(self, data: bytes) -> None:
        self.socket.send(data)

    def read(self) -> bytes:
        return b"".join(self.socket.receive())


class TerminadoView(PlainView):
    """Its messages are JSON; they are not taken apart here, which is in its favour."""

    def __init__(self, socket: WebSocket) -> None:
        super().__init__(socket)
        socket.send(b'["set_size", 24, 80]', text=True)

    def type(self, data: bytes) -> None:
        self.socket.send(json.dumps(["stdin", data.decode()]).encode(), text=True)


class _Peer:
    """A server of another make: one process that has all terminals."""

    name: str
    version: str
    view: type[PlainView]

    def __init__(self, argv: list[str], root: Path, **env: str) -> None:
        env |= {"HOME": str(root), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        self._server = subprocess.Popen(
            [*argv, *DRIVER], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
        )
        assert self._server.stdout is not None
        self._port = int(self._server.stdout.readline())

    def connect(self, terminal: str) -> PlainView:
        return self.view(WebSocket(self._port, f"/terminals/{terminal}", {"Origin": f"http://127.0.0.1:{self._port}"}))

    def pids(self) -> list[int]:
        return [self._server.pid]

    def stop(self) -> None:
        self._server.kill()
        self._server.wait()


class Terminado(_Peer):
    name = "terminado"
    view = TerminadoView

    def __init__(self, root: Path) -> None:
        python = install_wheels(cache_root() / "terminado", WHEELS)
        words = "from importlib.metadata import version as v; print(v('terminado'), 'on tornado', v('tornado'))"
        said = subprocess.run([python, "-c", words], capture_output=True, text=True, check=True)
        self.version = said.stdout.strip()
        super().__init__([str(python), str(HERE / "terminado_server.py")], root)


class Node(_Peer):
    name = "node-pty + ws"
    view = PlainView

    def __init__(self, root: Path) -> None:
        node = install_node(cache_root())
        modules = install_packages(cache_root(), "node-terminal", NODE_PACKAGES)
        versions = [package_version(modules, name) for name in NODE_PACKAGES]
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        self.version = f"(@lydell/node-pty {versions[0]}, ws {versions[1]}, Node {said})"
        super().__init__([str(node), str(HERE / "node_server.js")], root, NODE_PATH=str(modules))


SIDES = (Corral, Terminado, Node)
