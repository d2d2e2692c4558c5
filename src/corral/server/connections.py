"""Connections that have not proved themselves: few, for a short time, fairly shared among those who make them.

uvicorn waits for a request for as long as its client likes, and accepts until no descriptor is left. So each connection
has a deadline for its headers here, those without a proof are counted by the user who made them, and a new one
takes the place of the oldest of the same user.
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

HEADER_SECONDS = 10.0
"""From the connection, or from the end of the last answer, to the end of a request's headers."""
MOST_UNPROVEN = 1024
"""One user has at most half of it: as many as the tabs of a few browsers that come back at once."""
LONGEST_HEADERS = 1 << 20
"""As many cookies as a browser keeps for one name, which others may have set; none of them is read."""
ACCEPT_AT_ONCE = 16
"""Connections that are taken before any of them is looked at."""
_DIAGNOSE, _BY_FAMILY, _REQUEST = 4, 20, 1
_MOST_LINES, _LINES_SECONDS = 20, 60.0


class Crowd:
    """All connections without a proof, by who made them."""

    def __init__(self, most_open: int | None) -> None:
        """A quarter of the files that may be open, at most; one user has at most half of that."""
        self._most = max(8, min(MOST_UNPROVEN, (most_open or 4 * MOST_UNPROVEN) // 4))
        self._by_peer: dict[object, dict[GuardedProtocol, None]] = {}
        self._by_client: dict[tuple[str, int], GuardedProtocol] = {}

    def enter(self, one: GuardedProtocol, peer: object) -> None:
        """Where there is no room, the oldest of those who have most has to go."""
        mine = self._by_peer.setdefault(peer, {})
        mine[one] = None
        if one.client is not None:
            self._by_client[one.client] = one
        if len(mine) > self._most // 2:
            self._drop_oldest(peer)
        elif sum(map(len, self._by_peer.values())) > self._most:
            self._drop_oldest(max(self._by_peer, key=lambda peer: len(self._by_peer[peer])))

    def prove(self, client: tuple[str, int] | None) -> None:
        """Who is there has shown a credential: it counts no more."""
        one = self._by_client.get(client) if client is not None else None
        if one is not None:
            self.leave(one)

    def leave(self, one: GuardedProtocol) -> None:
        if one.client is not None and self._by_client.get(one.client) is one:
            del self._by_client[one.client]
        for peer, members in list(self._by_peer.items()):
            if one in members:
                del members[one]
                if not members:
                    del self._by_peer[peer]

    def _drop_oldest(self, peer: object) -> None:
        oldest = next(iter(self._by_peer[peer]))
        self.leave(oldest)
        oldest.transport.abort()


class GuardedProtocol(H11Protocol):
    """uvicorn's own, with a deadline for headers and without cookies."""

    crowd: ClassVar[Crowd]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()
        self.crowd.enter(self, find_peer(transport.get_extra_info("socket")))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.crowd.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._await_headers()
        super().on_response_complete()
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()  # the next request was here already

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The library for WebSockets takes no long header, and there may be foreign cookies."""
        self._stop_waiting()
        self.crowd.leave(self)  # it is judged before it is accepted; from then on it is no business of this class
        self.headers = [(name, value) for name, value in self.headers if name != b"cookie"]
        super().handle_websocket_upgrade(event)

    def _await_headers(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def guarded_by(crowd: Crowd) -> type[GuardedProtocol]:
    """The class that uvicorn makes one of for each connection."""
    return type("GuardedByCrowd", (GuardedProtocol,), {"crowd": crowd})


def find_peer(connection: Any) -> object:
    """The user whose process is at the other end, where the kernel tells (on this machine); else the address."""
    try:
        own, peer = connection.getsockname()[:2], connection.getpeername()[:2]
        uid = _ask_kernel(connection.family, peer, own) if ipaddress.ip_address(peer[0]).is_loopback else None
    except (OSError, ValueError, struct.error):
        return None
    return uid if uid is not None else peer[0]


def _ask_kernel(family: int, source: tuple[str, int], target: tuple[str, int]) -> int | None:
    """By the kernel's diagnosis of sockets: the one with exactly these two ends."""

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
    """So many lines a minute, and then one that says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = 0.0
        self._lines = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._begun > _LINES_SECONDS:
            if self._lines > _MOST_LINES:
                record.msg = f"{record.getMessage()} (and {self._lines - _MOST_LINES} lines before were left out)"
                record.args = ()
            self._begun, self._lines = now, 0
        self._lines += 1
        return self._lines <= _MOST_LINES
