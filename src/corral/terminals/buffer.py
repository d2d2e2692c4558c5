"""The lines of one screen and those above it, and what becomes of them when the size changes. Standard library only.

Where terminals differ, in how lines are wrapped again for example, this does as the page's engine does.
"""

from __future__ import annotations

from itertools import pairwise

from corral.terminals.attributes import PLAIN, Attributes

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
            if self.cells[columns] == REST:
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

    def _groups(self) -> list[tuple[int, int]]:
        """Start and end of what was written as one line each, from the top."""
        starts = [at for at, line in enumerate(self.lines) if not at or not line.wrapped]
        return list(zip(starts, [*starts[1:], len(self.lines)], strict=True))

    def _lengths(self, group: list[Line], columns: int) -> list[int]:
        """How many cells of each belong to the text."""
        lengths: list[int] = []
        for line, following in pairwise(group):
            # A wide character that did not fit has left the last cell blank.
            lengths.append(columns - (line.used(columns) < columns and following.is_wide(0)))
        return [*lengths, group[-1].used(columns)]

    def _widen(self, old: int, columns: int) -> None:
        cursor = self.above + self.y
        removed: set[int] = set()
        for start, end in self._groups():
            if end - start == 1 or start <= cursor < end:
                continue  # the program itself mends the line in which the cursor is
            group = self.lines[start:end]
            lengths = self._lengths(group, old)
            cells, looks = _join(group, lengths)
            pieces = _split(cells, columns)
            for line, (first, last) in zip(group, pieces, strict=False):
                line.cells, line.looks = cells[first:last], looks[first:last]
            removed.update(range(start + max(1, len(pieces)), end))
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

    def _narrow(self, old: int, columns: int) -> None:
        added: list[tuple[int, list[Line]]] = []
        count = 0
        for start, end in reversed(self._groups()):
            if end > len(self.lines):
                end = len(self.lines)  # what was below the cursor had to go
            group = self.lines[start:end]
            if not group or (len(group) == 1 and group[0].used(old) <= columns):
                continue
            if start <= self.above + self.y < end:
                continue
            lengths = self._lengths(group, old)
            cells, looks = _join(group, lengths)
            pieces = _split(cells, columns)
            if not pieces:
                continue
            fresh = [Line([], [], wrapped=True) for _ in range(len(pieces) - len(group))]
            for line, (first, last) in zip([*group, *fresh], pieces, strict=False):
                line.cells[:columns] = cells[first:last]
                line.looks[:columns] = looks[first:last]
            if not fresh:
                continue
            added.append((end, fresh))
            count += len(fresh)
            for _ in fresh:
                if self.above:
                    self.above += self.above < len(self.lines) + count - self.rows
                elif self.y < self.rows - 1:
                    self.y += 1
                    self._move_saved(1)
                    self.lines.pop()
                else:
                    self.above += 1
        for at, fresh in added:
            at = min(at, len(self.lines))
            self.lines[at:at] = fresh
        self.trim()


def _join(group: list[Line], lengths: list[int]) -> tuple[list[str], list[Attributes]]:
    cells: list[str] = []
    looks: list[Attributes] = []
    for line, length in zip(group, lengths, strict=True):
        line.grow(length)
        cells += line.cells[:length]
        looks += line.looks[:length]
    return cells, looks


def _split(cells: list[str], columns: int) -> list[tuple[int, int]]:
    """Where lines of this width begin and end; no wide character is parted."""
    pieces: list[tuple[int, int]] = []
    start = 0
    while start < len(cells):
        end = min(start + columns, len(cells))
        if end < len(cells) and cells[end] == REST:
            end -= 1
        pieces.append((start, end))
        start = end
    return pieces
