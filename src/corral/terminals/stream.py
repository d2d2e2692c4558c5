"""A program's output as viewers join it: the ring, the sizes, the modes, the screen. Standard library only.

The screen is read late: output waits in the ring until somebody needs a picture, or until it would leave the ring.
A flood of lines that are all scrolled away again is not read at all.
"""

from __future__ import annotations

import re

from corral.sidecar.light_typing import NamedTuple
from corral.terminals.attributes import PLAIN, apply_sgr
from corral.terminals.buffer import HISTORY_LINES
from corral.terminals.line_run import LineRun
from corral.terminals.modes import Modes
from corral.terminals.picture import paint
from corral.terminals.ring import Ring
from corral.terminals.screen import Screen
from corral.terminals.sizes import Sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.terminals.attributes import Attributes

_SLICE = 1 << 16
_LOOK = re.compile(rb"\x1b\[([0-9;:]*)m")


class Beginning(NamedTuple):
    """How a viewer is brought to what the screen shows now."""

    offset: int
    """Its first byte; less than the ring's oldest if it has to be told of a gap first."""
    change: int
    """The number of the first change of size for it."""
    size: tuple[int, int]
    """Before that."""
    picture: bytes = b""
    """To be shown first."""


class Stream:
    """Fed with output and sizes in the order in which they happened."""

    def __init__(self, capacity: int, size: tuple[int, int]) -> None:
        self.ring = Ring(capacity)
        self.modes = Modes()
        """Those in force now …"""
        self.sizes = Sizes(*size)
        self._screen = Screen(*size)
        self._screen_modes = Modes()
        """… and those that go with the screen."""
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
        self.modes.feed(data)
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
        screen = self._screen
        picture = b""
        if self._read:
            picture = paint(screen, self._screen_modes, whole=whole, history=history) + screen.opened_string
        offset = max(self.ring.oldest, self._read - screen.incomplete_bytes)
        return Beginning(offset, self._change, (screen.columns, screen.rows), picture)

    # --- reading

    def _read_some(self) -> None:
        change = self.sizes.find(max(self._change, self.sizes.first))
        end = self.ring.head if change is None else change.offset
        if change is not None and end <= self._read:
            self._screen.resize(change.columns, change.rows)
            self._change = max(self._change, self.sizes.first) + 1
            return
        data = self.ring.read(self._read, min(_SLICE, end - self._read))
        self._screen.feed(data)
        self._screen_modes.feed(data)
        self._read += len(data)

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
