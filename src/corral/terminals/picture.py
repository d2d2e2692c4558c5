"""A screen as the bytes that paint it on a terminal in its first state, of the same size. Standard library only.

No terminal answers any of it. Rows follow each other as a program would write them, so that a terminal that wraps
lines again when its size changes knows which of them belong together.
"""

from __future__ import annotations

from corral.terminals.attributes import PLAIN, Attributes, erased, is_erased, select
from corral.terminals.buffer import BLANK, REST
from corral.terminals.widths import width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.terminals.buffer import Buffer, Line
    from corral.terminals.modes import Modes
    from corral.terminals.screen import Screen

_WIPE = "\x1b[0m\x1b[999;1H\x1b[1J\x1b[2K\x1b[H"
"""Not by the sequence that erases all: some terminals keep what it erases above the screen."""
_FIRST = (0, 0, PLAIN, "B")
_SLOTS = "()*+"
_SHIFTS = ("", "\x0e", "\x1bn", "\x1bo")


def paint(screen: Screen, modes: Modes, *, whole: bool, history: bool) -> bytes:
    """`whole`: both screens, if a program has one of its own; else the one that is shown. `history`: what is above."""
    parts: list[str] = []
    if whole or screen.shown is screen.normal:
        parts += [_WIPE, _Rows(screen.normal, history=history).paint(), _keyboard(modes, alternate=False)]
        parts += [_tabs(screen.normal), _region(screen.normal)]
        if (
            screen.shown is not screen.normal
            or screen.normal.saved != _FIRST
            or screen.charset != screen.charsets[screen.shift]
        ):
            parts += [_saved(screen.normal), "\x1b7"]
    if screen.shown is screen.alternate:
        if whole:
            parts.append(_saved(screen.normal))
        parts += [f"\x1b[?{modes.alternate or 1049}h\x1b[r", _letters("B"), _WIPE]
        parts += [_Rows(screen.alternate, history=False).paint(), _keyboard(modes, alternate=True)]
        parts += [_tabs(screen.alternate), _region(screen.alternate)]
        if screen.alternate.saved != _FIRST or screen.charset != screen.charsets[screen.shift]:
            parts += [_saved(screen.alternate), "\x1b7"]
    parts += [_letters("B"), modes.restore().decode("utf-8", "replace")]
    parts += [f"\x1b]{name};{colour}\x1b\\" for name, colour in screen.colours.items()]
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
    parts.append(select(screen.look) + (_link(screen.look.link) if screen.look.link else ""))
    return "".join(parts).encode("utf-8", "replace")


def _keyboard(modes: Modes, *, alternate: bool) -> str:
    return modes.keyboard(alternate=alternate).decode()


def _tabs(buffer: Buffer) -> str:
    if {tab for tab in buffer.tabs if tab < buffer.columns} == set(range(0, buffer.columns, 8)):
        return ""
    return "\x1b[3g" + "".join(f"\x1b[{tab + 1}G\x1bH" for tab in sorted(buffer.tabs) if tab < buffer.columns)


def _region(buffer: Buffer) -> str:
    if (buffer.top, buffer.bottom) == (0, buffer.rows - 1):
        return ""
    return f"\x1b[{buffer.top + 1};{buffer.bottom + 1}r"


def _saved(buffer: Buffer) -> str:
    x, y, look, charset = buffer.saved
    return f"\x1b[{y + 1};{min(x, buffer.columns - 1) + 1}H{select(look)}{_letters(charset)}"


def _letters(charset: str) -> str:
    return f"\x1b({charset}\x0f"


def _link(words: str) -> str:
    return f"\x1b]8;{words or ';'}\x1b\\"


def _cursor(screen: Screen) -> str:
    buffer = screen.shown
    row = buffer.y - (buffer.top if screen.origin else 0) + 1
    if buffer.x < screen.columns:
        return f"\x1b[{row};{buffer.x + 1}H"
    # The last column was just written: the next character wraps. Only writing it again leads there.
    line = buffer.line(buffer.y)
    line.grow(screen.columns)
    at = screen.columns - 1 - (line.cells[-1] == REST)
    cell, look = line.cells[at], line.looks[at]
    return f"\x1b[{row};{at + 1}H{_look(look)}{' ' if cell == BLANK else cell}{_link('') if look.link else ''}"


def _look(look: Attributes) -> str:
    return select(look) + (_link(look.link) if look.link else "")


class _Rows:
    """The rows of a buffer, written one after the other from the top left."""

    def __init__(self, buffer: Buffer, *, history: bool) -> None:
        self._columns = buffer.columns
        self._lines = buffer.lines if history else buffer.lines[buffer.above :]
        self._above = buffer.above if history else 0
        self._parts: list[str] = []
        self._look = PLAIN
        self._mends: list[tuple[int, int, int, Attributes]] = []
        """Blank cells that had to be written to, so that the next row goes on with theirs: row, column, count, look."""

    def paint(self) -> str:
        count = len(self._lines)
        for at, line in enumerate(self._lines):
            following = self._lines[at + 1] if at + 1 < count else None
            self._paint_row(at, line, at > 0 and line.wrapped, following)
            if following is not None and not following.wrapped:
                self._choose(erased(PLAIN))
                self._parts.append("\r\n")
        for row, column, cells, look in self._mends:
            if row < 0:
                continue  # above the screen, where no cell can be reached
            self._choose(look)
            self._parts.append(f"\x1b[{row + 1};{column + 1}H\x1b[{cells}X")
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

    def _paint_row(self, row: int, line: Line, continues: bool, following: Line | None) -> None:
        columns = min(self._columns, len(line.cells))
        x = 0
        if continues and (not columns or (line.cells[0] == BLANK and is_erased(line.looks[0]))):
            self._choose(PLAIN)
            self._parts.append(" ")
            self._mends.append((row - self._above, 0, 1, line.looks[0] if columns else PLAIN))
            x = 1
        elif continues and line.looks[0].background:
            self._choose(PLAIN)  # a row that comes in by wrapping has the background of what wraps
            self._parts.append(" \b")
        written = x
        """Where the cursor of the terminal is."""
        while x < columns:
            cell, look = line.cells[x], line.looks[x]
            end = x + 1
            if cell == BLANK and is_erased(look):
                while end < columns and line.cells[end] == BLANK and line.looks[end] is look:
                    end += 1
                if look.background:
                    self._skip(x - written)
                    written = x
                    self._choose(look)
                    self._parts.append(f"\x1b[{end - x}X")
            else:
                while end < columns and line.looks[end] is look and line.cells[end] != BLANK:
                    end += 1
                self._skip(x - written)
                written = end
                self._choose(look)
                self._write(line.cells[x:end])
            x = end
        if following is not None and following.wrapped:
            self._fill_row(row, line, written, following)

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

    def _fill_row(self, row: int, line: Line, written: int, following: Line) -> None:
        """Up to its last column, so that what is written next wraps."""
        if self._columns - written == 1 and following.is_wide(0) and not following.looks[0].background:
            return
        at = written
        while at < self._columns:
            look = line.looks[at] if at < len(line.looks) else PLAIN
            end = at + 1
            while end < self._columns and (line.looks[end] if end < len(line.looks) else PLAIN) is look:
                end += 1
            self._choose(erased(look))
            self._parts.append(" " * (end - at))
            self._mends.append((row - self._above, at, end - at, erased(look)))
            at = end
