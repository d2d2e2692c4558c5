"""The process that holds the server's listening sockets while the server is away. Standard library only.

It runs as `python -I -S` on this file, and its first line of input says what to hold. Whoever had the port for a
moment could leave a script in the browser that acts as our page; so the port is never free while logins are good. The
keeper reads no request and knows no secret. The server connects to its Unix socket, gets the listening sockets, and
stays connected; when that connection breaks, the server is gone.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import time

GO = b"g"
"""The server sends it once this process is on record."""
RELEASE = b"r"
"""The server sends it when the port should be released."""
_DRAIN_SECONDS = 5.0
"""A server that restarts soon finds in the queue who came meanwhile. After that nobody is kept waiting."""
_ALONE_SECONDS = 86_400.0
"""How long it holds the port for a server that does not come back."""
_LOOK_SECONDS = 60.0


class Keeper:
    """Ends when the server says so, when no server came for a day, or when its directory is gone."""

    def __init__(self, order: dict[str, object], listeners: list[socket.socket], control: socket.socket) -> None:
        self._words = json.dumps({"schema": 1, "name": order["name"]}).encode()
        self._path = str(order["path"])
        self._listeners = listeners
        self._control = control
        self._server: socket.socket | None = None
        self._alone_since = time.monotonic()

    def run(self) -> None:
        while os.path.exists(self._path):
            alone_seconds = time.monotonic() - self._alone_since if self._server is None else 0.0
            if alone_seconds > _ALONE_SECONDS:
                return
            draining = self._server is None and alone_seconds >= _DRAIN_SECONDS
            waiting: list[socket.socket] = [self._control, *([self._server] if self._server else [])]
            waiting += self._listeners if draining else []
            for fd in _wait(waiting, _LOOK_SECONDS if draining or self._server else _DRAIN_SECONDS):
                if fd == self._control.fileno():
                    self._hand_over()
                elif self._server is not None and fd == self._server.fileno():
                    if self._hear() == RELEASE:
                        return
                else:
                    self._turn_away(fd)

    def _hand_over(self) -> None:
        """Give the sockets to whoever connects: only this user can, and only one server at a time has the lock."""
        try:
            connection, _ = self._control.accept()
        except OSError:
            return
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.getuid():
            connection.close()
            return
        connection.setblocking(False)
        try:
            socket.send_fds(connection, [self._words], [one.fileno() for one in self._listeners])
        except OSError:
            connection.close()
            return
        if self._server is not None:
            self._server.close()
        self._server = connection

    def _hear(self) -> bytes:
        assert self._server is not None
        try:
            word = self._server.recv(1)
        except BlockingIOError:
            return b""
        except OSError:
            word = b""
        if not word:
            self._server.close()
            self._server, self._alone_since = None, time.monotonic()
        return word

    def _turn_away(self, fd: int) -> None:
        for listener in self._listeners:
            if listener.fileno() == fd:
                try:
                    listener.accept()[0].close()
                except OSError:
                    pass  # the client left, or a server took it


def _wait(sockets: list[socket.socket], seconds: float) -> list[int]:
    watch = select.poll()
    for one in sockets:
        watch.register(one.fileno(), select.POLLIN)
    return [fd for fd, _ in watch.poll(seconds * 1000)]


def main() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it outlives the terminal that it was started from
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o177)
    order = json.loads(sys.stdin.buffer.readline())
    listeners = [socket.socket(fileno=fd) for fd in order["listeners"]]
    for one in listeners:
        one.setblocking(False)
    # A socket's path can have 107 bytes at most: through a descriptor it is short.
    folder = os.open(os.path.dirname(order["path"]), os.O_RDONLY | os.O_DIRECTORY)
    name = os.path.basename(order["path"])
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(f"/proc/self/fd/{folder}/{name}")
    control.listen(4)
    control.setblocking(False)
    own = os.stat(name, dir_fd=folder).st_ino
    os.write(1, b"ready\n")
    if sys.stdin.buffer.read(1) != GO:
        os._exit(1)  # the server died before this process was on record: nobody would find it
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    Keeper(order, listeners, control).run()
    for one in listeners:
        one.close()
    try:
        if os.stat(name, dir_fd=folder).st_ino == own:
            os.unlink(name, dir_fd=folder)
    except OSError:
        pass  # gone with its directory


if __name__ == "__main__":
    main()
