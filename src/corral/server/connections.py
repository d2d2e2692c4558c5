"""Connections that have not proved themselves are few, short, and shared fairly among the users who make them.

uvicorn waits for a request as long as the client likes, and accepts until no descriptor is left. So every connection
has a deadline here. Those without a proof are counted by user, and a new one replaces the oldest of the same user.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import struct
import time
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HEADER_SECONDS = 10.0
"""From the connection, or from the end of the last answer, to the end of a request's headers, with what is left of a
body after its answer; of a WebSocket, from there until it is let in."""
ANSWER_SECONDS = 20.0
"""From there to the end of the answer, while there is no proof: for the page, its files, and the proofs."""
MOST_UNPROVEN = 1024
"""One user gets at most half of it: enough for a few browsers whose tabs all come back at once."""
LONGEST_HEADERS = 1 << 20
"""Room for all cookies that a browser keeps for one name. Others may have set them; we read none."""
MOST_HEADERS = 16 << 20
"""For all unfinished requests of one user together; only those longer than usual count."""
_USUAL_HEADERS = 64 << 10
ACCEPT_AT_ONCE = 16
"""How many connections are accepted before any of them is served."""
_DIAGNOSE, _BY_FAMILY, _REQUEST = 4, 20, 1
_MOST_LINES, _LINES_SECONDS = 20, 60.0


class Crowd:
    """All connections without a proof, by user, each with the size of its unfinished request if that is large."""

    def __init__(self, most_open: int | None) -> None:
        """It gets a quarter of the files that may be open; one user gets at most half of that."""
        self._most = max(8, min(MOST_UNPROVEN, (most_open or 4 * MOST_UNPROVEN) // 4))
        self._by_peer: dict[object, dict[Member, int]] = {}
        self._by_client: dict[tuple[str, int], Member] = {}

    def enter(self, one: Member, peer: object) -> None:
        """If there is no room, the oldest connection of the user with the most has to go."""
        mine = self._by_peer.setdefault(peer, {})
        mine[one] = 0
        if one.client is not None:
            self._by_client[one.client] = one
        if len(mine) > self._most // 2:
            self._drop(next(iter(mine)))
        elif sum(map(len, self._by_peer.values())) > self._most:
            self._drop(next(iter(max(self._by_peer.values(), key=len))))

    def weigh(self, one: Member, size: int) -> None:
        """Note the size of its unfinished request. If a user sends too much, their largest request has to go."""
        mine = next((members for members in self._by_peer.values() if one in members), None)
        if mine is None:
            return
        mine[one] = size
        if sum(mine.values()) > MOST_HEADERS:
            self._drop(max(mine, key=lambda member: mine[member]))

    def prove(self, client: tuple[str, int] | None) -> None:
        """This client has shown a credential: it no longer counts, and may take its time."""
        one = self._by_client.get(client) if client is not None else None
        if one is not None:
            self.leave(one)
            one.on_proven()

    def leave(self, one: Member) -> None:
        if one.client is not None and self._by_client.get(one.client) is one:
            del self._by_client[one.client]
        for peer, members in list(self._by_peer.items()):
            if one in members:
                del members[one]
                if not members:
                    del self._by_peer[peer]

    def _drop(self, one: Member) -> None:
        self.leave(one)
        one.transport.abort()


class Deadline:
    """Cuts a connection off when its time is up."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport, seconds: float) -> None:
        self.end()
        self._timer = asyncio.get_running_loop().call_later(seconds, transport.abort)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class GuardedProtocol(H11Protocol):
    """uvicorn's own protocol without cookies, and with a deadline for every wait until the client proves itself."""

    crowd: ClassVar[Crowd]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._deadline = Deadline()
        self._is_answering = False
        self._is_proven = False
        self._unfinished_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline.begin(transport, HEADER_SECONDS)
        self.crowd.enter(self, find_peer(transport.get_extra_info("socket")))

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.end()
        self.crowd.leave(self)
        super().connection_lost(exc)

    def on_proven(self) -> None:
        """For the rest of this connection only headers have a deadline."""
        self._is_proven = True
        if self._is_answering:
            self._deadline.end()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look_for_request()
        if not self._is_answering:
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes > _USUAL_HEADERS:
                self.crowd.weigh(self, self._unfinished_bytes)

    def on_response_complete(self) -> None:
        self._is_answering = False
        self._deadline.begin(self.transport, HEADER_SECONDS)
        super().on_response_complete()
        self._look_for_request()  # the next one may be here already

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The WebSocket library refuses long headers, and foreign cookies can be long: they are dropped."""
        self._deadline.end()
        self.crowd.leave(self)  # its WebSocket takes its place
        self.headers = [(name, value) for name, value in self.headers if name != b"cookie"]
        super().handle_websocket_upgrade(event)

    def _look_for_request(self) -> None:
        cycle: Any = self.cycle  # None before the first
        if self._is_answering or cycle is None or cycle.response_complete:
            return
        self._is_answering = True
        self._unfinished_bytes = 0
        if self._is_proven:
            self._deadline.end()
        else:
            self._deadline.begin(self.transport, ANSWER_SECONDS)


class GuardedSocket(WebSocketsSansIOProtocol):
    """uvicorn's own protocol, counted and timed until it has proved itself: the library never answers some upgrades."""

    crowd: ClassVar[Crowd]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._deadline = Deadline()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._deadline.begin(self.transport, HEADER_SECONDS)
        self.crowd.enter(self, find_peer(transport.get_extra_info("socket")))

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.end()
        self.crowd.leave(self)
        super().connection_lost(exc)

    def on_proven(self) -> None:
        self._deadline.end()


Member = GuardedProtocol | GuardedSocket


def guarded_by(crowd: Crowd) -> tuple[type[GuardedProtocol], type[GuardedSocket]]:
    """The classes of which uvicorn makes one for each connection and each WebSocket."""
    return (
        type("HttpGuardedByCrowd", (GuardedProtocol,), {"crowd": crowd}),
        type("SocketGuardedByCrowd", (GuardedSocket,), {"crowd": crowd}),
    )


def find_peer(connection: Any) -> object:
    """The user at the other end if the kernel knows (on this machine), else the address."""
    try:
        own, peer = connection.getsockname()[:2], connection.getpeername()[:2]
        uid = _ask_kernel(connection.family, peer, own) if ipaddress.ip_address(peer[0]).is_loopback else None
    except (OSError, ValueError, struct.error):
        return None
    return uid if uid is not None else peer[0]


def _ask_kernel(family: int, source: tuple[str, int], target: tuple[str, int]) -> int | None:
    """Ask the kernel's socket diagnosis for the owner of the socket with exactly these two ends."""

    def pack(address: str) -> bytes:
        return socket.inet_pton(family, address).ljust(16, b"\0")

    ends = struct.pack("!HH16s16s", source[1], target[1], pack(source[0]), pack(target[0]))
    wanted = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ends
    wanted += struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _DIAGNOSE) as kernel:
        kernel.settimeout(0.1)
        kernel.send(struct.pack("=IHHII", 16 + len(wanted), _BY_FAMILY, _REQUEST, 1, 0) + wanted)
        answer = kernel.recv(4096)
    if struct.unpack_from("=IH", answer)[1] != _BY_FAMILY:
        return None
    return struct.unpack_from("=I", answer, 16 + 64)[0]


class FewLines(logging.Filter):
    """Lets a few lines a minute through; the next one then says how many messages were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = 0.0
        self._lines = 0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._begun > _LINES_SECONDS:
            if self._left_out:
                record.msg = f"{record.getMessage()} ({self._left_out} earlier messages were left out)"
                record.args = ()
            self._begun, self._lines, self._left_out = now, 0, 0
        if self._lines >= _MOST_LINES:
            self._left_out += 1
            return False
        self._lines += logging.Formatter().format(record).count("\n") + 1  # a traceback is many
        return True
