"""Finds output that is nothing but lines: what they scroll away need not be read. Standard library only."""

from __future__ import annotations

import re

_ALLOWED = bytes((9, 10, 13, 27, *range(32, 127), *range(128, 256)))
# Of sequences only colours, and what erases within the line.
_OTHER = re.compile(rb"\x1b(?!\[[0-9;:]*[mK])")
_LONGEST = 1 << 16


class LineRun:
    """Fed with all output in order, however it is cut."""

    def __init__(self) -> None:
        self._start = 0
        """From this offset on there was nothing else."""
        self._end = 0
        self._rest = b""
        """A line that is not complete yet; it is after the end."""
        self._count = 0
        self._cuts: list[tuple[int, int]] = []
        """Offsets at which a line begins, each with the number of lines before it."""

    def feed(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        length = data.rfind(b"\n") + 1
        if not length and len(data) > _LONGEST:
            length = len(data)
            self._restart(length)
        elif length:
            piece = data[:length]
            if piece.translate(None, _ALLOWED) or (b"\x1b" in piece and _OTHER.search(piece)):
                self._restart(length)
            else:
                self._note(piece)
        self._end += length
        self._rest = data[length:]

    def find_cut(self, read: int, before: int, lines: int) -> int | None:
        """The last offset in between at which a line begins, with so many after it, and nothing else since `read`."""
        if self._start > read:
            return None
        while self._cuts and self._cuts[0][0] <= read:
            del self._cuts[0]
        found = None
        for offset, count in self._cuts:
            if offset > before or self._count - count < lines:
                break
            found = offset
        return found

    def _restart(self, length: int) -> None:
        self._start = self._end + length
        self._count = 0
        self._cuts.clear()

    def _note(self, piece: bytes) -> None:
        first = piece.find(b"\r\n")
        if first >= 0:
            self._cuts.append((self._end + first + 2, self._count + piece.count(b"\n", 0, first + 2)))
        self._count += piece.count(b"\n")
