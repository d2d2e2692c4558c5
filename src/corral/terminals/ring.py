"""The last bytes that a program wrote, by absolute offset. Standard library only."""

from __future__ import annotations

from mmap import mmap


class Ring:
    """Keeps the newest `capacity` bytes. Offsets count from the program's first byte and never restart."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.head = 0
        """The offset after the newest byte."""
        # Memory of a quiet terminal is never touched, and so costs nothing.
        self._memory = mmap(-1, capacity)

    @property
    def oldest(self) -> int:
        """The offset of the oldest byte that is still here."""
        return max(0, self.head - self.capacity)

    def append(self, data: bytes) -> None:
        self.head += len(data)
        data = data[-self.capacity :]
        start = (self.head - len(data)) % self.capacity
        first = min(len(data), self.capacity - start)
        self._memory[start : start + first] = data[:first]
        if first < len(data):
            self._memory[: len(data) - first] = data[first:]

    def read(self, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from `offset` on, which must not have left the ring."""
        if not self.oldest <= offset <= self.head:
            raise ValueError(f"offset {offset} is outside {self.oldest}…{self.head}")
        length = min(limit, self.head - offset)
        start = offset % self.capacity
        first = min(length, self.capacity - start)
        return self._memory[start : start + first] + self._memory[: length - first]
