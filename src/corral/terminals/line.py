"""A viewer's line to a holder, for one that reads and writes the socket itself: which bytes mean what, no waiting."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from corral.model.frames import Frame, OutputRun, ProtocolError, ViewerFrame
from corral.terminals.client import await_answer, connect, name_holder
from corral.terminals.protocol import OUTPUT, FrameReader, decode, encode
from corral.terminals.silence import LOOK_SECONDS, Patience

_HEAD_SIZE = 9
"""Of an Output's payload, before its data: replay (1 byte) and offset (8)."""


class Line:
    """Connected, and nothing said yet. Blocks while it connects: from asyncio, make it in a thread."""

    look_seconds = LOOK_SECONDS
    """How long an answer may take before the holder is looked at."""

    def __init__(self, directory: str, tab: str) -> None:
        """Raises NotReachable."""
        self.socket: socket.socket = connect(directory, tab)
        self.holder = name_holder(self.socket)
        """The very process at the other side: one that took its place has another name."""
        self._tab = tab
        self._reader = FrameReader()

    def encode(self, *frames: ViewerFrame) -> bytes:
        """What to write for these."""
        return b"".join(map(encode, frames))

    def feed(self, data: bytes) -> list[Frame | OutputRun]:
        """What was read, whole: output as it came, all else taken apart. Raises ProtocolError."""
        merged = merge_output(self._reader.split(data))
        return [
            OutputRun(payload, _end_of(payload)) if kind == OUTPUT else decode(kind, payload)
            for kind, payload in merged
        ]

    def await_answer(self) -> Patience:
        """The wait for an answer, from now on."""
        return await_answer(self.socket, self._tab)


def merge_output(frames: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Output that continues other output, as one: each message costs the page more than its bytes."""
    merged: list[tuple[int, bytes]] = []
    run: list[bytes] = []
    end = 0
    for kind, payload in frames:
        if kind == OUTPUT and len(payload) < _HEAD_SIZE:
            raise ProtocolError("output without its offset")
        if kind == OUTPUT and run and payload[0] == run[0][0] and int.from_bytes(payload[1:9]) == end:
            run.append(payload[_HEAD_SIZE:])
            end += len(payload) - _HEAD_SIZE
            continue
        _close_run(merged, run)
        merged.append((kind, payload))
        run = [payload] if kind == OUTPUT else []
        end = _end_of(payload) if run else 0
    _close_run(merged, run)
    return merged


def _close_run(merged: list[tuple[int, bytes]], run: list[bytes]) -> None:
    if len(run) > 1:
        merged[-1] = OUTPUT, b"".join(run)


def _end_of(output: bytes) -> int:
    """The offset after the last byte of an Output's payload."""
    return int.from_bytes(output[1:9]) + len(output) - _HEAD_SIZE
