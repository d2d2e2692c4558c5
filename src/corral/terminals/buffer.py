"""The lines of one screen and those above it, and what becomes of them when the size changes. Standard library only.

Where terminals differ, in how lines are wrapped again for example, this does as the page's engine does.
"""

from __future__ import annotations

from corral.terminals.attributes import PLAIN, Attributes
from corral.terminals.widths import width

HISTORY_LINES = 1000
"""Lines kept above the screen."""
_SLACK = 200
BLANK = "\0"
"""A cell that nothing was written to."""
REST = ""
"""The right half of a wide character."""
_TAB = 8


class Line:
    """Cells from the left; beyond the last there are blank ones."""

    __slots__ = ("cells", "looks", "wrapped")

    def __init__(self, cells: list[str], looks: list[Attributes], *, wrapped: bool = False) -> None:
        self.cells = cells
        self.looks = looks
        self.wrapped = wrapped
        """Whether it goes on with the line before, which was full."""

    def grow(self, length: int) -> None:
        """At least so many cells."""
        missing = length - len(self.cells)
        if missing > 0:
            self.cells += [BLANK] * missing
            self.looks += [PLAIN] * missing

    def used(self, columns: int) -> int:
        """Up to the last cell that was written to."""
        cells = self.cells
        at = min(len(cells), columns)
        while at and cells[at - 1] == BLANK:
            at -= 1
        return at

    def set(self, at: int, cell: str, look: Attributes) -> None:
        self.grow(at + 1)
        self.cells[at] = cell
        self.looks[at] = look

    def is_wide(self, at: int) -> bool:
        """Whether the left half of a wide character is there."""
        return at + 1 < len(self.cells) and self.cells[at + 1] == REST and self.cells[at] != REST

    def has_wide(self, at: int) -> bool:
        """The same where the right half may be elsewhere: while lines are wrapped again, and at their end."""
        return at < len(self.cells) and self.cells[at] != REST and width(self.cells[at][0]) == 2

    def fill(self, start: int, end: int, look: Attributes) -> None:
        """Erase these cells; halves of wide characters that are cut go too."""
        if look is not PLAIN:
            self.grow(end)
        cells, looks = self.cells, self.looks
        if 0 < start < len(cells) and cells[start] == REST:
            cells[start - 1], looks[start - 1] = BLANK, look
        if end < len(cells) and cells[end] == REST:
            cells[end], looks[end] = BLANK, look
        end = min(end, len(cells))
        if start < end:
            cells[start:end] = [BLANK] * (end - start)
            looks[start:end] = [look] * (end - start)

    def insert(self, at: int, count: int, columns: int, look: Attributes) -> None:
        """Move what is there and to the right of it; what leaves the line is lost."""
        columns = max(columns, len(self.cells))
        self.grow(columns)
        cells, looks = self.cells, self.looks
        if at and cells[at] == REST:
            cells[at - 1 : at + 1] = (BLANK, BLANK)
            looks[at - 1] = look
        count = min(count, columns - at)
        cells[at:at] = [BLANK] * count
        looks[at:at] = [look] * count
        cut = cells[columns : columns + 1] == [REST]
        del cells[columns:], looks[columns:]
        if cut:
            cells[-1], looks[-1] = BLANK, look

    def delete(self, at: int, count: int, columns: int, look: Attributes) -> None:
        """Take cells out; from the right blank ones come."""
        columns = max(columns, len(self.cells))
        self.grow(columns)
        cells, looks = self.cells, self.looks
        cut = at and cells[at] == REST
        count = min(count, columns - at)
        del cells[at : at + count], looks[at : at + count]
        cells += [BLANK] * count
        looks += [look] * count
        if cut:
            cells[at - 1], looks[at - 1] = BLANK, look
        if cells[at] == REST:
            cells[at], looks[at] = BLANK, look

    def cut(self, columns: int) -> None:
        """No cells beyond these; a wide character loses its right half with them, and is gone."""
        if len(self.cells) > columns:
            if self.cells[columns] == REST and self.has_wide(columns - 1):
                self.cells[columns - 1] = BLANK
            del self.cells[columns:], self.looks[columns:]


def blank_line(columns: int, look: Attributes, *, wrapped: bool = False) -> Line:
    if look is PLAIN:
        return Line([], [], wrapped=wrapped)
    return Line([BLANK] * columns, [look] * columns, wrapped=wrapped)


class Buffer:
    """The normal screen with what was scrolled off it, or the alternate one, which keeps nothing."""

    def __init__(self, columns: int, rows: int, *, has_history: bool) -> None:
        self.columns = columns
        self.rows = rows
        self.has_history = has_history
        self.clear()
        self.saved: tuple[int, int, Attributes, str] = (0, 0, PLAIN, "B")
        """Column, row, look and character set of the cursor that a program asked to keep."""

    def clear(self) -> None:
        self.lines = [Line([], []) for _ in range(self.rows)]
        """First those above the screen."""
        self.above = 0
        """How many those are."""
        self.x = 0
        """As many as there are columns: the next character wraps."""
        self.y = 0
        self.top = 0
        self.bottom = self.rows - 1
        self.tabs = set(range(0, self.columns, _TAB))

    def line(self, y: int) -> Line:
        return self.lines[self.above + y]

    def scroll(self, look: Attributes, *, wrapped: bool = False) -> None:
        """The region moves up by a line; at the top of the screen that line is kept above it."""
        line = blank_line(self.columns, look, wrapped=wrapped)
        lines, above = self.lines, self.above
        if self.top:
            del lines[above + self.top]
            lines.insert(above + self.bottom, line)
            return
        lines.insert(above + self.bottom + 1, line)
        if self.has_history:
            self.above += 1
            if self.above > HISTORY_LINES + _SLACK:
                self.trim()
        else:
            del lines[0]

    def trim(self) -> None:
        """Keep no more above the screen than is promised."""
        too_many = self.above - HISTORY_LINES
        if too_many > 0:
            del self.lines[:too_many]
            self.above -= too_many

    def next_tab(self, x: int) -> int:
        return min((tab for tab in self.tabs if x < tab < self.columns), default=self.columns - 1)

    def tab_before(self, x: int) -> int:
        return min(max((tab for tab in self.tabs if tab < x), default=0), self.columns - 1)

    # --- another size

    def resize(self, columns: int, rows: int) -> None:
        self._resize_rows(rows)
        x, y, look, charset = self.saved
        self.saved = min(x, columns - 1), y, look, charset
        self.x = min(self.x, columns - 1)
        self.top, self.bottom = 0, rows - 1
        old, self.rows = self.columns, rows
        if self.has_history and columns > old:
            self._widen(old, columns)
        elif self.has_history and columns < old:
            self._narrow(old, columns)
        for line in self.lines:
            line.cut(columns)
        self.columns = columns
        tab = columns if columns in self.tabs else self.tab_before(columns)
        self.tabs.update(range(tab, columns, _TAB))

    def _resize_rows(self, rows: int) -> None:
        lines = self.lines
        moved = 0
        for _ in range(rows - self.rows):
            if self.above and len(lines) <= self.above + self.y + moved + 1:
                self.above -= 1  # nothing is below the cursor: a line comes back from above
                moved += 1
            else:
                lines.append(Line([], []))
        for _ in range(self.rows - rows):
            if len(lines) > self.above + self.y + 1:
                lines.pop()
            else:
                self.above += 1
                moved -= 1
        if not self.has_history and self.above:
            del lines[: self.above]
            self.above = 0
        self.y = min(self.y, rows - 1) + max(moved, 0)
        self._move_saved(moved)

    def _move_saved(self, rows: int) -> None:
        x, y, look, charset = self.saved
        self.saved = x, max(0, y + rows), look, charset

    # Lines that were wrapped are wrapped again, in place, cell by cell, in the order in which the page's engine does it
    # (xterm.js 6.0.0, Buffer._reflow*): which blank cells are left where, and where the cursor is, follows from that.

    def _widen(self, old: int, columns: int) -> None:
        removed: set[int] = set()
        for start, end in self._groups():
            if end - start > 1 and not start <= self.above + self.y < end:
                # The program itself mends the line in which the cursor is.
                left = _join_lines(self.lines[start:end], old, columns)
                removed.update(range(start + left, end))
        if not removed:
            return
        self.lines = [line for at, line in enumerate(self.lines) if at not in removed]
        for _ in removed:
            if self.above:
                self.above -= 1
                continue
            self.y = max(0, self.y - 1)
            self._move_saved(-1)
            if len(self.lines) < self.rows:
                self.lines.append(Line([], []))

    def _groups(self) -> list[tuple[int, int]]:
        """Start and end of what was written as one line each, from the top."""
        starts = [at for at, line in enumerate(self.lines) if not at or not line.wrapped]
        return list(zip(starts, [*starts[1:], len(self.lines)], strict=True))

    def _narrow(self, old: int, columns: int) -> None:
        added: list[tuple[int, list[Line]]] = []
        count, left = 0, len(self.lines)
        """How many lines come in, and how many do not leave at the bottom for them. Those that do are still read."""
        for start, end in reversed(self._groups()):
            group = self.lines[start:end]
            if (end - start == 1 and group[0].used(old) <= columns) or start <= self.above + self.y < end:
                continue
            fresh = _part_lines(group, old, columns)
            if fresh:
                added.append((end, fresh))
                count += len(fresh)
            for _ in fresh:
                if self.above and self.above < left + count - self.rows:
                    self.above += 1
                elif self.above:
                    self._move_saved(1)
                elif self.y < self.rows - 1:
                    self.y += 1
                    self._move_saved(1)
                    left -= 1
                else:
                    self.above += 1
        del self.lines[left:]
        for at, fresh in added:
            at = min(at, left)
            self.lines[at:at] = fresh
        self.trim()


def _length(group: list[Line], at: int, columns: int) -> int:
    """How many cells of a line belong to the text."""
    if at == len(group) - 1:
        return group[at].used(columns)
    # A wide character that did not fit has left the last cell blank.
    return columns - (group[at].used(columns) < columns and group[at + 1].has_wide(0))


def _copy(to: Line, to_column: int, line: Line, column: int, count: int) -> None:
    line.grow(column + count)
    to.grow(to_column + count)
    to.cells[to_column : to_column + count] = line.cells[column : column + count]
    to.looks[to_column : to_column + count] = line.looks[column : column + count]


def _join_lines(group: list[Line], old: int, columns: int) -> int:
    """Fill each line of what was wrapped from the following ones; returns how many are left."""
    to, to_column = 0, _length(group, 0, old)
    at, column = 1, 0
    while at < len(group):
        length = _length(group, at, old)
        count = min(length - column, columns - to_column)
        _copy(group[to], to_column, group[at], column, count)
        to_column += count
        if to_column == columns:
            to, to_column = to + 1, 0
        column += count
        if column == length:
            at, column = at + 1, 0
        if to_column == 0 and to and group[to - 1].has_wide(columns - 1):
            _copy(group[to], 0, group[to - 1], columns - 1, 1)
            group[to - 1].set(columns - 1, BLANK, PLAIN)
            to_column = 1
    del group[to].cells[to_column:], group[to].looks[to_column:]
    left = len(group)
    while left > 1 and (left - 1 > to or not group[left - 1].used(columns)):
        left -= 1
    return left


def _part_lines(group: list[Line], old: int, columns: int) -> list[Line]:
    """Move what does not fit any more to the following lines, the last ones first; returns those that come in."""
    lengths = _new_lengths(group, old, columns)
    fresh = [Line([], [], wrapped=True) for _ in range(len(lengths) - len(group))]
    lines = [*group, *fresh]
    to = len(lengths) - 1
    to_column = lengths[to] if lengths else 0
    at = len(group) - 1
    column = _length(group, at, old)
    while at >= 0 and 0 <= to < len(lines):
        count = min(column, to_column)
        _copy(lines[to], to_column - count, lines[at], column - count, count)
        to_column -= count
        if not to_column:
            to -= 1
            to_column = lengths[to]
        column -= count
        if not column:
            at -= 1
            column = _length(lines, max(at, 0), old)
    for line, length in zip(lines, lengths, strict=False):
        if length < columns:
            line.set(length, BLANK, PLAIN)
    return fresh


def _new_lengths(group: list[Line], old: int, columns: int) -> list[int]:
    """Of lines of this width, so that no wide character is parted."""
    needed = sum(_length(group, at, old) for at in range(len(group)))
    lengths: list[int] = []
    at = column = done = 0
    while done < needed:
        if needed - done < columns:
            lengths.append(needed - done)
            break
        column += columns
        length = _length(group, at, old)
        if column > length:
            column -= length
            at += 1
        parted = group[at].has_wide(column - 1)
        column -= parted
        lengths.append(columns - parted)
        done += columns - parted
    return lengths
