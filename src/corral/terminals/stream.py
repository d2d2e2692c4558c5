"""A program's output as viewers join it: the ring, the sizes, the modes, the screen. Standard library only.

The screen is read late: output waits in the ring until somebody needs a picture, or until it would leave the ring.
A flood of lines that are all scrolled away again is not read at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from mmap import mmap
from typing import NamedTuple, TypeVar

from corral.terminals.attributes import PLAIN, Attributes, apply_sgr
from corral.terminals.buffer import HISTORY_LINES
from corral.terminals.modes import ModeReader
from corral.terminals.picture import paint
from corral.terminals.screen import Screen

Done = TypeVar("Done")

_SLICE = 1 << 16
_LOOK = re.compile(rb"\x1b\[([0-9;:]*)m")
_ALLOWED = bytes((9, 10, 13, 27, *range(32, 127), *range(128, 256)))
# Of sequences only colours, and what erases within the line. Controls that are encoded as two bytes are none.
_OTHER = re.compile(rb"\x1b(?!\[[0-9;:]*[mK])|\xc2[\x80-\x9f]")
_LONGEST = 1 << 16
_MOST = 1000


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


class Beginning(NamedTuple):
    """How a viewer is brought to what the screen shows now."""

    offset: int
    """Its first byte. Less than the ring's oldest if there is a gap, which it must hear of first."""
    change: int
    """The number of the first change of size for it."""
    size: tuple[int, int]
    """Before that."""
    picture: bytes = b""
    """To be shown first."""


class Stream:
    """Fed with output and sizes in the order in which they happened."""

    def __init__(self, capacity: int, size: tuple[int, int], tell: Callable[[str], object] = str) -> None:
        """`tell` logs faults of our own."""
        self._tell = tell
        self.ring = Ring(capacity)
        self._mode_reader = ModeReader()
        self.modes = self._mode_reader.modes
        """Those in force now; those that go with the screen are its own."""
        self.sizes = Sizes(*size)
        self._screen = Screen(*size)
        self._read = 0
        """The screen has seen all before this offset …"""
        self._change = 1
        """… and all changes of size before this number."""
        self._lines = LineRun()
        self._most_unread = capacity * 3 // 4

    def feed(self, data: bytes) -> None:
        if len(data) > self._most_unread // 2:
            half = len(data) // 2
            self.feed(data[:half])
            self.feed(data[half:])
            return
        while self.ring.head + len(data) - self._read > self._most_unread:
            if not self._pass_over_lines():
                self._read_some()
        self.ring.append(data)
        self._mode_reader.feed(data)
        self._lines.feed(data)

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.forget_before(self.ring.oldest)
        self.sizes.note(self.ring.head, columns, rows)
        if self._change < self.sizes.first:
            self.read_all()

    def read_all(self) -> None:
        """Bring the screen up to date."""
        while self._read < self.ring.head or self._change < self.sizes.end:
            self._read_some()

    def begin(self, wanted: int | None) -> Beginning:
        """For a viewer that takes on any size and has seen all before `wanted`; None: nothing."""
        if wanted is not None and wanted <= self.ring.head:
            return Beginning(wanted, self.sizes.number_after(wanted), self.sizes.at(wanted))
        return self._begin_at_screen(whole=True, history=True)

    def begin_now(self, *, whole: bool, history: bool) -> Beginning:
        """For one that can't take on another size: a picture of what is shown now."""
        self.read_all()
        return self._begin_at_screen(whole=whole, history=history)

    def _begin_at_screen(self, *, whole: bool, history: bool) -> Beginning:
        picture = b""
        if self._read:
            painted = self._survive(lambda: paint(self._screen, whole=whole, history=history))
            picture = (painted or b"") + self._screen.parser.begun
        screen = self._screen
        offset = max(self.ring.oldest, self._read - screen.parser.incomplete_bytes)
        return Beginning(offset, self._change, (screen.columns, screen.rows), picture)

    # --- reading

    def _read_some(self) -> None:
        change = self.sizes.find(max(self._change, self.sizes.first))
        end = self.ring.head if change is None else change.offset
        if change is not None and end <= self._read:
            self._change = max(self._change, self.sizes.first) + 1
            self._survive(lambda: self._screen.resize(change.columns, change.rows))
            return
        data = self.ring.read(self._read, min(_SLICE, end - self._read))
        self._read += len(data)
        self._survive(lambda: self._screen.feed(data))

    def _survive(self, work: Callable[[], Done]) -> Done | None:
        """A fault in what is shown must not end the program: it goes on with an empty screen, and the modes."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - it is logged; an agent's conversation is worth more than its picture
            self._tell(f"the screen is lost: {error!r}")
            modes, self._screen = self._screen.modes, Screen(*self.sizes.at(self._read))
            self._screen.modes = modes
            return None

    def _pass_over_lines(self) -> bool:
        """Whether lines that are kept scroll away all that is on the screen: then they begin a fresh one."""
        screen = self._screen
        if self._change < self.sizes.end or screen.shown is not screen.normal or not screen.is_at_rest:
            return False
        middle = (self._read + self.ring.head) // 2
        cut = self._lines.find_cut(self._read, middle, HISTORY_LINES + screen.rows + 1)
        if cut is None:
            return False
        screen.begin_lines(self._find_look(cut))
        self._read = cut
        return True

    def _find_look(self, end: int) -> Attributes:
        """How text looks there. What is unread before it is lines alone."""
        length = 1 << 10
        while True:
            start = max(self._read, end - length)
            lines = self.ring.read(start, end - start)
            reset = max(lines.rfind(b"\x1b[0m"), lines.rfind(b"\x1b[m"))
            if reset >= 0 or start == self._read:
                break
            length *= 8
        look = PLAIN if reset >= 0 else self._screen.look
        for found in _LOOK.finditer(lines, max(0, reset)):
            look = apply_sgr(look, found[1].decode())
        return look


class LineRun:
    """Finds output that is nothing but lines: what they scroll away need not be read.

    Fed with all output in order, however it is cut.
    """

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
            if piece.translate(None, _ALLOWED) or ((b"\x1b" in piece or b"\xc2" in piece) and _OTHER.search(piece)):
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


class Change(NamedTuple):
    """From this offset on."""

    offset: int
    columns: int
    rows: int


class Sizes:
    """At which byte of the output the terminal had which size.

    Changes have numbers that never restart. One that nobody needs any more is forgotten.
    """

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
