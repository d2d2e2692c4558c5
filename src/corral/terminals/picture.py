"""A screen as the bytes that paint it on a terminal in its first state, of the same size. Standard library only.

No terminal answers any of it. Rows follow each other as a program would write them, so that a terminal that wraps
lines again when its size changes knows which of them belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.terminals.attributes import PLAIN, Attributes, erased, is_erased, select
from corral.terminals.buffer import BLANK, REST, Line
from corral.terminals.widths import width

if TYPE_CHECKING:
    from corral.terminals.buffer import Buffer
    from corral.terminals.screen import Screen

_WIPE = "\x1b[0m\x1b[999;1H\x1b[1J\x1b[2K\x1b[H"
"""Not by the sequence that erases all: some terminals keep what it erases above the screen."""
_WITH_CURSOR, _WITHOUT_CURSOR = 1049, 47
_WIDE = "一"
_SLOTS = "()*+"
_SHIFTS = ("", "\x0e", "\x1bn", "\x1bo")


def paint(screen: Screen, *, whole: bool, history: bool) -> bytes:
    """`whole`: both screens, if a program has one of its own; else the one that is shown. `history`: what is above."""
    parts: list[str] = []
    modes = screen.modes
    if whole or screen.shown is screen.normal:
        parts += [_WIPE, _Rows(screen.normal, history=history, cuts=whole).paint(), modes.keyboard(alternate=False)]
        parts += [_tabs(screen, screen.normal), _region(screen.normal), _saved(screen.normal)]
    if screen.shown is screen.alternate:
        parts.append(_below(screen) if whole else f"\x1b[?{modes.alternate or _WITH_CURSOR}h")
        parts += ["\x1b[r", _letters("B"), _WIPE]
        parts += [_Rows(screen.alternate, history=False, cuts=whole).paint(), modes.keyboard(alternate=True)]
        parts += [_tabs(screen, screen.alternate), _region(screen.alternate), _saved(screen.alternate)]
    parts += [_letters("B"), modes.restore()]
    letters = [f"\x1b{_SLOTS[at]}{name}" for at, name in enumerate(screen.charsets) if name != "B"]
    letters.append(_SHIFTS[screen.shift])
    if screen.charset == screen.charsets[screen.shift]:
        parts += [_cursor(screen), *letters]
    else:
        # Only the cursor that was kept and came back has letters of its own.
        parts += [*letters, "\x1b8", _cursor(screen)]
    parts += [
        sequence
        for on, sequence in (
            (screen.inserts, "\x1b[4h"),
            (screen.feeds_new_lines, "\x1b[20h"),
            (screen.wraps_back, "\x1b[?45h"),
        )
        if on
    ]
    parts += [_look(screen.look), modes.finish(), _cluster(screen)]
    return "".join(parts).encode("utf-8", "replace")


def _below(screen: Screen) -> str:
    """From the normal screen, where the cursor has been kept, to the other one."""
    buffer, mode = screen.normal, screen.modes.alternate or _WITH_CURSOR
    x, y = buffer.saved[:2]
    if mode == _WITH_CURSOR and (min(x, buffer.columns - 1), y) == (min(buffer.x, buffer.columns - 1), buffer.y):
        return f"\x1b[?{mode}h"
    # Where the cursor is decides what becomes of the lines when the size changes.
    return f"\x1b[{buffer.y + 1};{buffer.x + 1}H\x1b[?{_WITHOUT_CURSOR}h"


def _tabs(screen: Screen, buffer: Buffer) -> str:
    if not screen.moved_tabs:
        return ""
    return "\x1b[3g" + "".join(f"\x1b[{tab + 1}G\x1bH" for tab in sorted(buffer.tabs) if tab < buffer.columns)


def _region(buffer: Buffer) -> str:
    if (buffer.top, buffer.bottom) == (0, buffer.rows - 1):
        return ""
    return f"\x1b[{buffer.top + 1};{buffer.bottom + 1}r"


def _saved(buffer: Buffer) -> str:
    x, y, look, charset = buffer.saved
    return f"\x1b[{y + 1};{min(x, buffer.columns - 1) + 1}H{select(look)}{_letters(charset)}\x1b7"


def _letters(charset: str) -> str:
    return f"\x1b({charset}\x0f"


def _link(words: str) -> str:
    return f"\x1b]8;{words or ';'}\x1b\\"


def _cursor(screen: Screen) -> str:
    buffer = screen.shown
    if buffer.x < screen.columns:
        return _place(screen, buffer.x)
    # The last column was just written: the next character wraps. Only writing it again leads there.
    line = buffer.line(buffer.y)
    line.grow(screen.columns)
    last = screen.columns - 1
    at = last - (line.cells[last] == REST)
    cell, look = line.cells[at], line.looks[at]
    if not line.used(screen.columns) and all(one is look for one in line.looks[:last]):
        return f"{_place(screen, last)}{_look(look)} \x1b[1K"
    return f"{_place(screen, at)}{_look(look)}{' ' if cell == BLANK else cell}{_link('') if look.link else ''}"


def _cluster(screen: Screen) -> str:
    """What was written last once more, so that what comes next can join it. It has the look that is set already."""
    buffer, line = screen.shown, screen.shown.line(screen.shown.y)
    at = buffer.x - 1 - (line.cells[buffer.x - 1 : buffer.x] == [REST])
    if screen.inserts or not screen.cluster or at < 0 or line.cells[at : at + 1] != [screen.cluster]:
        return ""
    return _place(screen, at) + screen.cluster


def _place(screen: Screen, x: int) -> str:
    # With an origin that is not the first row, xterm.js 6.0.0 moves down whatever moves relatively.
    return f"\x1b[{screen.shown.y - (screen.shown.top if screen.origin else 0) + 1};{x + 1}H"


def _look(look: Attributes) -> str:
    return select(look) + (_link(look.link) if look.link else "")


class _Rows:
    """The rows of a buffer, written one after the other from the top left."""

    def __init__(self, buffer: Buffer, *, history: bool, cuts: bool) -> None:
        """`cuts`: blanks that wide characters left come as such, not as spaces; and a first row may go on with none.

        They look the same until lines are wrapped again. Only the page's engine is known to leave them as they are made
        here; and a terminal with a size of its own gets another picture before it wraps anything.
        """
        self._cuts = cuts
        self._columns = buffer.columns
        self._lines = buffer.lines if history else buffer.lines[buffer.above :]
        if cuts and not buffer.has_history and self._lines[0].wrapped:
            # The row that it goes on with is gone: one is written for it, which leaves at the top again.
            self._lines = [Line([" "] * buffer.columns, [PLAIN] * buffer.columns), *self._lines]
        self._parts: list[str] = []
        self._look = PLAIN
        self._filled: list[tuple[int, int, Attributes]] = []
        """Blank cells at the end of the row before that were written to, so that this row goes on.

        Column, number and look of each piece.
        """
        self._left_over: Attributes | None = None
        """The look of the last cell of the row before, where a wide character did not fit."""
        self._spaced: Line | None = None
        """The row before, if its last cell is a blank that was written as a space, so that this row goes on."""

    def paint(self) -> str:
        count = len(self._lines)
        for at, line in enumerate(self._lines):
            following = self._lines[at + 1] if at + 1 < count else None
            self._paint_row(line, at > 0 and line.wrapped, following)
            if following is not None and not following.wrapped:
                self._choose(PLAIN)
                self._parts.append("\r\n")
        self._choose(PLAIN)
        return "".join(self._parts)

    def _choose(self, look: Attributes) -> None:
        if look is self._look:
            return
        if look[:5] != self._look[:5]:
            self._parts.append(select(look))
        if look.link != self._look.link:
            self._parts.append(_link(look.link))
        self._look = look

    def _paint_row(self, line: Line, continues: bool, following: Line | None) -> None:
        columns = min(self._columns, len(line.cells))
        cells, looks = line.cells, line.looks
        if line.is_wide(columns - 1):  # half of it is beyond the last column
            cells = [*cells[: columns - 1], " "]
        if following is not None and not following.wrapped:
            following = None
        if following and following.is_wide(0) and columns == self._columns and cells[columns - 1] == BLANK:
            columns -= 1  # a wide character that wraps leaves it as it is
        if continues:
            self._go_on(line)
        x = written = 0
        """The latter is where the cursor of the terminal is."""
        while x < columns:
            cell, look = cells[x], looks[x]
            end = x + 1
            if cell == BLANK and is_erased(look):
                while end < columns and cells[end] == BLANK and looks[end] is look:
                    end += 1
                if look.background:
                    self._skip(x - written)
                    written = x
                    self._choose(look)
                    self._parts.append(f"\x1b[{end - x}X")
            elif cell == BLANK and self._cuts and end < self._columns:
                self._skip(x - written)
                written = end
                self._cut_right(x, look)
            else:
                while end < columns and looks[end] is look and cells[end] != BLANK:
                    end += 1
                self._skip(x - written)
                written = end
                self._choose(look)
                self._write(cells[x:end])
            x = end
        ends_blank = self._cuts and written == self._columns and cells[written - 1] == BLANK
        if following is not None:
            self._spaced = line if ends_blank else None
            self._fill_row(line, written, following)
        elif ends_blank:
            self._cut_end(line)

    def _cut_right(self, x: int, look: Attributes) -> None:
        """A blank that is drawn: a wide character whose right half is written over leaves it, in the look of that."""
        self._choose(look)
        self._parts.append(f"{_WIDE}\x1b[{x + 2}G \x1b[{x + 2}G")
        self._choose(PLAIN)
        self._parts.append("\x1b[1X")

    def _cut_end(self, line: Line) -> None:
        """The same up to the last column: made one column before, moved, and what was there is written again."""
        cells, looks, last = line.cells, line.looks, self._columns - 1
        start = last
        while start > 1 and cells[start - 1] == BLANK and not is_erased(looks[start - 1]):
            start -= 1
        for x in range(start - 1, last):
            self._parts.append(f"\x1b[{x + 1}G")
            self._cut_right(x, looks[x + 1])
        at = start - 1 - (cells[start - 1] == REST)
        self._parts.append(f"\x1b[{start}G\x1b[@\x1b[{at + 1}G")
        self._choose(looks[at])
        if cells[at] == BLANK and is_erased(looks[at]):
            self._parts.append("\x1b[1X")
        else:
            self._write([cells[at]])

    def _go_on(self, line: Line) -> None:
        """Wrap, which only writing does; then erase what was written for that alone."""
        look, self._left_over = self._left_over, None
        if look is not None and look == line.looks[0] and not look.background:
            return  # the wide character wraps by itself, and leaves the last cell as it is
        # A row that comes in by wrapping has the background of what wraps, and so has a last cell that is left over.
        self._choose(look or PLAIN)
        self._parts.append(" " if look is None else _WIDE)
        for column, count, filled in self._filled:
            self._parts.append(f"\x1b[A\x1b[{column + 1}G")
            self._choose(filled)
            self._parts.append(f"\x1b[{count}X\x1b[B")
        self._filled.clear()
        if self._spaced is not None:
            self._parts.append("\x1b[A")
            self._cut_end(self._spaced)
            self._spaced = None
            self._parts.append("\x1b[B")
        self._choose(PLAIN)
        self._parts.append(f"\r\x1b[{self._columns if look else 1}X")

    def _skip(self, count: int) -> None:
        if count:
            self._parts.append(f"\x1b[{count}C")

    def _write(self, cells: list[str]) -> None:
        for at, cell in enumerate(cells):
            if not cell.isascii() and cell != REST and not width(cell[0]):
                # One that joins nothing: a sequence before it keeps it apart.
                self._parts.append("".join(cells[:at]).replace(BLANK, " ") + select(self._look))
                self._write_joined(cells[at:])
                return
        self._parts.append("".join(cells).replace(BLANK, " "))

    def _write_joined(self, cells: list[str]) -> None:
        self._parts.append(cells[0])
        self._write(cells[1:])

    def _fill_row(self, line: Line, written: int, following: Line) -> None:
        """Up to its last column, so that what is written next wraps."""
        last = self._columns - 1
        if following.is_wide(0) and written <= last and line.cells[last : last + 1] in ([], [BLANK]):
            self._skip(last - written)
            self._left_over = line.looks[last] if last < len(line.looks) else PLAIN
            return
        at = written
        while at < self._columns:
            look = erased(line.looks[at]) if at < len(line.looks) else PLAIN
            end = at + 1
            while end < self._columns and (erased(line.looks[end]) if end < len(line.looks) else PLAIN) is look:
                end += 1
            self._choose(look)
            self._parts.append(" " * (end - at))
            self._filled.append((at, end - at, look))
            at = end
