"""At which byte of a program's output its terminal had which size. Standard library only."""

from __future__ import annotations

from corral.sidecar.light_typing import NamedTuple

_MOST = 1000


class Change(NamedTuple):
    """From this offset on."""

    offset: int
    columns: int
    rows: int


class Sizes:
    """Changes have numbers that never restart. One that nobody needs any more is forgotten."""

    def __init__(self, columns: int, rows: int) -> None:
        self.first = 0
        """The number of the oldest change that is known."""
        self._changes = [Change(0, columns, rows)]

    @property
    def end(self) -> int:
        """The number that the next change will have."""
        return self.first + len(self._changes)

    @property
    def latest(self) -> Change:
        return self._changes[-1]

    def note(self, offset: int, columns: int, rows: int) -> None:
        self._changes.append(Change(offset, columns, rows))
        if len(self._changes) > _MOST:
            self._forget(_MOST // 2)

    def forget_before(self, offset: int) -> None:
        """Nobody goes back to what is before it."""
        count = 0
        while count + 1 < len(self._changes) and self._changes[count + 1].offset < offset:
            count += 1
        self._forget(count)

    def _forget(self, count: int) -> None:
        if count:
            del self._changes[:count]
            self.first += count

    def find(self, number: int) -> Change | None:
        """The change of that number, None while it is still to come. It must not be forgotten."""
        index = number - self.first
        return self._changes[index] if index < len(self._changes) else None

    def number_after(self, offset: int) -> int:
        """Of the first change that one who is at this offset, in the size that it has there, has not seen."""
        number = self.end
        while number > self.first and self._changes[number - 1 - self.first].offset > offset:
            number -= 1
        return number

    def at(self, offset: int) -> tuple[int, int]:
        """The size at an offset, after all changes there."""
        change = self._changes[max(0, self.number_after(offset) - 1 - self.first)]
        return change.columns, change.rows
