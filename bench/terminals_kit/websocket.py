"""A WebSocket client that costs little beside what it measures: bytes in, payloads out; the same for every server."""

from __future__ import annotations

import base64
import os
import socket
import struct

_READ = 1 << 18
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10


class WebSocket:
    """Blocking, for one thread. Loopback only: the mask that a client owes is all zeros."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        asked = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "Upgrade"}
        asked |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, **headers}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in asked.items()), "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            part = self.socket.recv(_READ)
            assert part, answer
            answer += part
        head, _, rest = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        self._buffer = bytearray(rest)

    def send(self, payload: bytes, *, text: bool = False) -> None:
        self._send(_TEXT if text else _BINARY, payload)

    def _send(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        head = bytes((0x80 | kind, 0x80 | size)) if size < 126 else struct.pack(">BBH", 0x80 | kind, 0xFE, size)
        self.socket.sendall(head + bytes(4) + payload)

    def receive(self) -> list[bytes]:
        """At least one payload, and all that have come; an empty list when the server has closed."""
        while True:
            found = self._take()
            if found:
                return found
            part = self.socket.recv(_READ)
            if not part:
                return []
            self._buffer += part

    def _take(self) -> list[bytes]:
        buffer, view, position = self._buffer, memoryview(self._buffer), 0
        found: list[bytes] = []
        while len(buffer) - position >= 2:
            kind, size, start = buffer[position] & 15, buffer[position + 1] & 127, position + 2
            if size > 125:
                start += 2 if size == 126 else 8
                if len(buffer) < start:
                    break
                size = int.from_bytes(buffer[position + 2 : start])
            if len(buffer) < start + size:
                break
            payload = bytes(view[start : start + size])
            position = start + size
            if kind == _PING:
                self._send(_PONG, payload)
            elif kind != _CLOSE:
                found.append(payload)
        view.release()
        del buffer[:position]
        return found

    def close(self) -> None:
        self.socket.close()
