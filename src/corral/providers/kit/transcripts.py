"""Reading JSONL transcripts that others append to: from the end or from the start, never more than a budget.

    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable): ...        # FIFO, link, directory, missing, denied
    with transcript:
        for line in transcript.backward(TAIL_BUDGET):
            if b'"TurnBegin"' in line.data: ...       # search the bytes first, decode only what matters
        if transcript.exhausted: ...                  # the budget ended before the file did: unknown, say so

The file may grow, shrink or be replaced meanwhile: a pass sees the size that the file had when it was opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from corral.sidecar.files import Unreadable, open_regular

__all__ = ["HEAD_BUDGET", "TAIL_BUDGET", "Line", "Transcript", "Unreadable", "open_transcript"]

TAIL_BUDGET = 16 << 20
"""Bytes read from the end before giving up: a turn with several large tool results still fits."""
HEAD_BUDGET = 1 << 20

_FIRST_CHUNK = 32 << 10
_LARGEST_CHUNK = 2 << 20


class Line(NamedTuple):
    """One line without its newline. Empty lines are never given."""

    offset: int
    data: bytes
    ended: bool
    """False for a last line without newline: it may be torn, or its writer is not done."""


class Transcript:
    """An open transcript. Close it, or use it as a context manager."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.stat = os.fstat(fd)
        self.size = self.stat.st_size
        self.exhausted = False
        """The last pass stopped at its budget, or at a read error, before it reached the other end."""

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)

    def backward(self, budget: int = TAIL_BUDGET) -> Iterator[Line]:
        """Lines from the last to the first, reading at most `budget` bytes.

        A line whose start is beyond the budget is not given: `exhausted` is then True.
        """
        self.exhausted = False
        position = self.size
        line_end = self.size
        """Where the line being gathered ends."""
        parts: list[bytes] = []
        """Pieces of that line, last first."""
        chunk_size = _FIRST_CHUNK
        ended = False
        while position > 0:
            if budget <= 0:
                self.exhausted = True
                return
            length = min(chunk_size, position, budget)
            chunk = self._read(position - length, length)
            if len(chunk) != length:  # it shrank under us, or the disk failed
                self.exhausted = True
                return
            budget -= length
            position -= length
            chunk_size = min(chunk_size * 2, _LARGEST_CHUNK)
            right = length
            while (newline := chunk.rfind(b"\n", 0, right)) >= 0:
                parts.append(chunk[newline + 1 : right])
                data = b"".join(reversed(parts))
                parts.clear()
                if data:
                    yield Line(line_end - len(data), data, ended)
                ended = True
                line_end = position + newline
                right = newline
            parts.append(chunk[:right])
        data = b"".join(reversed(parts))
        if data:
            yield Line(0, data, ended)

    def forward(self, budget: int = HEAD_BUDGET) -> Iterator[Line]:
        """Lines from the first on, reading at most `budget` bytes; a line cut by the budget is not given."""
        self.exhausted = False
        position = 0
        start = 0
        parts: list[bytes] = []
        chunk_size = _FIRST_CHUNK
        end = min(self.size, budget)
        while position < end:
            chunk = self._read(position, min(chunk_size, end - position))
            if not chunk:
                self.exhausted = True
                return
            position += len(chunk)
            chunk_size = min(chunk_size * 2, _LARGEST_CHUNK)
            left = 0
            while (newline := chunk.find(b"\n", left)) >= 0:
                parts.append(chunk[left:newline])
                data = b"".join(parts)
                parts.clear()
                if data:
                    yield Line(start, data, True)
                left = newline + 1
                start = position - len(chunk) + left
            parts.append(chunk[left:])
        if self.size > budget:
            self.exhausted = True
            return
        data = b"".join(parts)
        if data:
            yield Line(start, data, False)

    def _read(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            try:
                part = os.pread(self._fd, length, offset)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def open_transcript(path: str) -> Transcript | Unreadable:
    """The transcript at `path`, or why there is none. It never blocks and follows no link at the last step."""
    fd = open_regular(path)
    return fd if isinstance(fd, Unreadable) else Transcript(fd)
