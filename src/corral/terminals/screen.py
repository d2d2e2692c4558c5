"""What a terminal shows after all that a program wrote: its cells, its cursor, its modes. Standard library only.

It takes output in pieces of any length, and every change of size where it happened. picture.py paints it.
Where terminals differ, this does as the page's engine, xterm.js, does.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.terminals.attributes import PLAIN, Attributes, add_style, erased, find_styles
from corral.terminals.buffer import BLANK, REST, Buffer, Line, blank_line
from corral.terminals.modes import Modes
from corral.terminals.parser import Parser
from corral.terminals.widths import has_odd, runs, width

_GRAPHICS = dict(zip(range(0x60, 0x7F), "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))
_BRITISH = {0x23: "£"}
_CHARSETS = {"0": _GRAPHICS, "A": _BRITISH}
_G = "()*+"
_FEWEST_COLUMNS = 2
"""A wide character needs them, and the page's engine has them in any case."""
_MOST_JOINED = 256
"""Characters in one cell."""
_LARGEST = (1 << 31) - 1
_LARGEST_DIGITS = 12
_MOST_WORDS = 32
_MOST_KNOWN = 4096


class Screen:
    """One terminal: two buffers, of which one is shown."""

    def __init__(self, columns: int, rows: int) -> None:
        self.parser = Parser(self)
        self.modes = Modes()
        self._counted: dict[str, Callable[[int], None]] = {
            "@": self._insert_characters, "A": self._up, "B": self._down, "C": self._right,
            "D": lambda count: self._move(-count, 0), "E": lambda count: self._down(count, to_start=True),
            "F": lambda count: self._up(count, to_start=True), "G": self._column,
            "I": lambda count: self._tab(count, self.shown.next_tab), "L": self._shift_from_cursor,
            "M": lambda count: self._shift_from_cursor(-count), "P": self._delete_characters,
            "S": lambda count: self._shift_lines(self.shown.top, -count, erased(self.look)),
            "X": self._erase_characters, "Z": lambda count: self._tab(count, self.shown.tab_before),
            "`": self._column, "a": self._right, "b": self._repeat,
            "d": lambda row: self._set_cursor(self.shown.x, row - 1), "e": lambda count: self._move(0, count),
        }  # fmt: skip
        """What sequences do whose first number is a count, or a place that counts from 1."""
        self._handlers: dict[str, Callable[[list[int]], None]] = {
            "H": self._position, "J": self._erase_display, "K": self._erase_line, "T": self._scroll_down,
            "f": self._position, "g": self._clear_tabs, "h": self._set_modes,
            "l": lambda numbers: self._set_modes(numbers, on=False), "r": self._region, "s": self._save,
            "u": self._restore,
        }  # fmt: skip
        self.moved_tabs = False
        """Whether a program ever did."""
        self._numbers: dict[str, list[int]] = {}
        """What parameters that were read before say."""
        self._styled, self._styles = PLAIN, find_styles(PLAIN)
        """A look, and where sequences that were read before lead from it."""
        self._start(max(columns, _FEWEST_COLUMNS), max(rows, 1))

    def _start(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.normal = Buffer(columns, rows, has_history=True)
        self.alternate = Buffer(columns, rows, has_history=False)
        self.shown = self.normal
        self.feeds_new_lines = False
        self._start_settings()
        self.cluster = ""
        """What was printed last and may be joined, or repeated."""

    def _start_settings(self) -> None:
        self.look = PLAIN
        self.charsets = ["B"] * 4
        self.shift = 0
        """Which of them is in use."""
        self.charset = "B"
        self.origin = self.inserts = self.wraps_back = False
        self.wraps = True

    @property
    def is_at_rest(self) -> bool:
        """Whether lines that come now scroll the whole screen, and are written as they are."""
        buffer = self.shown
        return (
            self.parser.is_between
            and (buffer.top, buffer.bottom) == (0, self.rows - 1)
            and self.wraps
            and not self.inserts
            and self.charset == "B"
            and not self.look.link
        )

    def begin_lines(self, look: Attributes) -> None:
        """Forget what is shown: all of it will be scrolled away by the lines that come now."""
        buffer = self.shown
        buffer.lines = [Line([], []) for _ in range(self.rows)]
        buffer.above = buffer.x = buffer.y = 0
        self.look = look
        self.cluster = ""

    # --- what comes in

    def feed(self, data: bytes) -> None:
        self.parser.feed(data)

    def resize(self, columns: int, rows: int) -> None:
        columns, rows = max(columns, _FEWEST_COLUMNS), max(rows, 1)
        self.columns, self.rows = columns, rows
        for buffer in (self.normal, self.alternate):
            buffer.resize(columns, rows)

    # --- text

    def print(self, text: str) -> None:
        if self.charset != "B":
            text = text.translate(_CHARSETS[self.charset])
        buffer, look = self.shown, self.look
        line, x = buffer.lines[buffer.above + buffer.y], buffer.x
        cells, looks = line.cells, line.looks
        length = len(cells)
        if 0 < x < length and cells[x] == REST:
            cells[x - 1], looks[x - 1] = BLANK, look
            if self.inserts:
                cells[x], looks[x] = BLANK, look
        if text.isascii() or not has_odd(text):
            end = x + len(text)
            if end > self.columns or length < x or self.inserts:
                self._print_narrow(text)
            else:  # which is by far the most
                if length > end and cells[end] == REST:
                    cells[end], looks[end] = BLANK, look
                cells[x:end] = text
                looks[x:end] = [look] * (end - x)
                buffer.x = end
            self.cluster = text[-1]
            return
        for columns, run in runs(text):
            if not columns:
                self._join(run)
                continue
            if columns == 1:
                self._print_narrow(run)
            else:
                self._print_wide(run)
            self.cluster = run[-1]

    def end_cluster(self) -> None:
        self.cluster = ""

    def _print_narrow(self, text: str) -> None:
        buffer, look, columns = self.shown, self.look, self.columns
        at = 0
        while at < len(text):
            x = buffer.x
            if x >= columns:
                if self.wraps:
                    self._wrap()
                    x = 0
                else:
                    x = columns - 1
            piece = text[at : at + columns - x]
            if not self.wraps and at + len(piece) < len(text):
                piece = piece[:-1] + text[-1]  # the rest is written over the last column, one after the other
                at = len(text)
            count = len(piece)
            line = buffer.lines[buffer.above + buffer.y]
            if self.inserts:
                line.insert(x, count, columns, look)
            end = x + count
            cells, looks = line.cells, line.looks
            length = len(cells)
            if length < x:
                line.grow(x)
            elif length > end and cells[end] == REST:
                cells[end], looks[end] = BLANK, look
            cells[x:end] = piece
            looks[x:end] = [look] * count
            buffer.x = end
            at += count

    def _join(self, run: str) -> None:
        """Characters without a width belong to the one before, or have cells of their own."""
        buffer = self.shown
        if not self.cluster or not buffer.x:
            self._print_narrow(run)
            self.cluster = ""
            return
        line = buffer.line(buffer.y)
        line.grow(buffer.x)
        at = max(0, buffer.x - 1 - (line.cells[buffer.x - 1] == REST))
        before = "" if line.cells[at] == BLANK else line.cells[at]
        line.cells[at] = before + run[: max(0, _MOST_JOINED - len(before))]
        self.cluster = line.cells[at]

    def _print_wide(self, text: str) -> None:
        buffer, look, columns = self.shown, self.look, self.columns
        at = 0 if columns > 1 else len(text)
        while at < len(text):
            if buffer.x + 2 > columns:
                if not self.wraps:
                    buffer.x = columns - 1
                    return
                line = buffer.line(buffer.y)
                for left_over in range(buffer.x, columns):
                    line.set(left_over, BLANK, look)
                self._wrap()
            x = buffer.x
            count = min(len(text) - at, (columns - x) // 2)
            end = x + 2 * count
            line = buffer.lines[buffer.above + buffer.y]
            if self.inserts:
                line.insert(x, 2 * count, columns, look)
            line.grow(x)
            cells = line.cells
            if len(cells) > end and cells[end] == REST:
                cells[end], line.looks[end] = BLANK, look
            pairs = [REST] * (2 * count)
            pairs[::2] = text[at : at + count]
            cells[x:end] = pairs
            line.looks[x:end] = [look] * (2 * count)
            buffer.x = end
            at += count

    def _wrap(self) -> None:
        buffer = self.shown
        buffer.x = 0
        if buffer.y == buffer.bottom:
            buffer.scroll(erased(self.look), wrapped=True)
        else:
            buffer.y = min(buffer.y + 1, self.rows - 1)
            buffer.line(buffer.y).wrapped = True

    def _repeat(self, count: int) -> None:
        if not self.cluster:
            return
        columns = width(self.cluster[0])
        at = self.shown.x - columns
        [text] = self.shown.line(self.shown.y).cells[at : at + 1] or [BLANK]
        if text in (BLANK, REST):
            return
        in_row = max(1, self.columns // max(1, columns))
        most = 4 * in_row * self.rows
        if count > most:  # rows that are full of it scroll away others that are
            count -= (count - most + in_row - 1) // in_row * in_row
        self.print(text * count)

    # --- single controls

    def begin_line(self) -> None:
        self.shown.x = 0
        self._feed_line()
        self.cluster = ""

    def obey(self, control: str) -> None:
        buffer = self.shown
        self.cluster = ""
        match control:
            case "\r":
                buffer.x = 0
            case "\n" | "\x0b" | "\x0c":
                self._feed_line()
            case "\b":
                self._back()
            case "\t":
                if buffer.x < self.columns:
                    buffer.x = buffer.next_tab(buffer.x)
            case "\x0e" | "\x0f":
                self._shift_to(int(control == "\x0e"))
            case "\x84":
                self._index()
            case "\x85":
                buffer.x = 0
                self._index()
            case "\x88":
                self._set_tab()
            case _:
                pass

    def _feed_line(self) -> None:
        buffer = self.shown
        if self.feeds_new_lines:
            buffer.x = 0
        if buffer.y == buffer.bottom:
            buffer.scroll(erased(self.look))
        elif buffer.y < self.rows - 1:
            buffer.y += 1
            buffer.line(buffer.y).wrapped = False
        if buffer.x >= self.columns:
            buffer.x = self.columns - 1

    def _back(self) -> None:
        buffer = self.shown
        if not self.wraps_back:
            self._restrict()
            buffer.x = max(0, buffer.x - 1)
            return
        self._restrict(self.columns)
        if buffer.x:
            buffer.x -= 1
        elif buffer.top < buffer.y <= buffer.bottom and buffer.line(buffer.y).wrapped:
            buffer.line(buffer.y).wrapped = False
            buffer.y -= 1
            line = buffer.line(buffer.y)
            last = self.columns - 1
            buffer.x = last - (len(line.cells) <= last or line.cells[last] == BLANK)
        self._restrict()

    def _shift_to(self, number: int) -> None:
        self.shift = number
        self.charset = self.charsets[number]

    def escape(self, between: str, final: str) -> None:
        buffer = self.shown
        self.cluster = ""
        match between, final:
            case "", "7":
                self._save([])
            case "", "8":
                self._restore([])
            case "", "D":
                self._index()
            case "", "E":
                buffer.x = 0
                self._index()
            case "", "H":
                self._set_tab()
            case "", "M":
                self._index_back()
            case "", "c":
                self._start(self.columns, self.rows)
                self.modes.reset()
            case "", "=" | ">":
                self.modes.set_keypad(final == "=")
            case "", "n" | "}":
                self._shift_to(2)
            case "", "o" | "|":
                self._shift_to(3)
            case "", "~":
                self._shift_to(1)
            case "#", "8":
                self._align()
            case "%", "@" | "G":
                self.charsets[0] = "B"
                self._shift_to(0)
            case "(" | ")" | "*" | "+" | "-" | ".", _:
                number = _G.find(between) if between in _G else "-.".find(between) + 1
                self.charsets[number] = final if final in _CHARSETS else "B"
                if self.shift == number:
                    self.charset = self.charsets[number]
            case _:
                pass

    def _index(self) -> None:
        self._restrict()
        buffer = self.shown
        if buffer.y == buffer.bottom:
            buffer.scroll(erased(self.look))
        else:
            buffer.y += 1
        self._restrict()

    def _index_back(self) -> None:
        self._restrict()
        buffer = self.shown
        if buffer.y == buffer.top:
            self._shift_lines(buffer.top, 1, erased(self.look))
        else:
            buffer.y -= 1
            self._restrict()

    def _align(self) -> None:
        self._set_cursor(0, 0)
        look = self.look._replace(underline=min(self.look.underline, 1), underline_colour="", link="")
        for y in range(self.rows):
            if self.shown.y + y < self.rows:
                line = self.shown.line(self.shown.y + y)
                line.cells, line.looks = ["E"] * self.columns, [look] * self.columns
                line.wrapped = False
        self._set_cursor(0, 0)

    def command(self, number: str, words: str) -> None:
        self.cluster = ""
        number = number.lstrip("0") or "0"
        if number != "8":
            self.modes.take_command(number, words)
            return
        parameters, separator, address = words.partition(";")
        if separator and (address or not parameters.strip()):
            self.look = self.look._replace(link=f"{parameters.strip()};{address}" if address else "")

    # --- sequences with numbers

    def control(self, prefix: str, words: str, between: str, final: str) -> None:
        if prefix or between:
            self._control_other(prefix, words, between, final)
        elif final == "m":
            if self.look is not self._styled:
                self._styles = find_styles(self.look)
            style = self._styles.get(words) or add_style(self.look, self._styles, words)
            self.look, self._styles = style
            self._styled = self.look
        elif (counted := self._counted.get(final)) is not None:
            counted((self._numbers.get(words) or self._read_numbers(words))[0] or 1)
        elif (handler := self._handlers.get(final)) is not None:
            handler(self._numbers.get(words) or self._read_numbers(words))
        self.cluster = ""

    def _read_numbers(self, words: str) -> list[int]:
        """The parameters, at least one; what is after a colon is part of none."""
        numbers = [_number(word.partition(":")[0]) for word in words.split(";")[:_MOST_WORDS]]
        if len(self._numbers) < _MOST_KNOWN and len(words) < _LARGEST_DIGITS:
            self._numbers[words] = numbers
        return numbers

    def _control_other(self, prefix: str, words: str, between: str, final: str) -> None:
        numbers = self._numbers.get(words) or self._read_numbers(words)
        match prefix, between, final:
            case "?", "", "h" | "l":
                for number in numbers:
                    self._set_private(number, final == "h")
            case "?", "", "J" | "K":
                self._handlers[final](numbers)
            case "", "!", "p":
                self._reset_softly()
            case "", " " | "'", "@" | "A" | "}" | "~":
                self._move_columns(between + final, numbers)
            case "", " ", "q":
                self.modes.set_cursor_style(numbers[0])
            case ">" | "<" | "=", "", "u":
                self.modes.set_keyboard(prefix, words)
            case ">", "", "m":
                self.modes.set_modify_keys(words)
            case _:
                pass

    def _restrict(self, last: int | None = None) -> None:
        buffer = self.shown
        buffer.x = min(buffer.x, self.columns - 1 if last is None else last)
        top, bottom = (buffer.top, buffer.bottom) if self.origin else (0, self.rows - 1)
        buffer.y = min(bottom, max(top, buffer.y))

    def _set_cursor(self, x: int, y: int) -> None:
        buffer = self.shown
        if self.origin:
            buffer.x, buffer.y = max(0, x), y + buffer.top
            self._restrict()
            return
        last, bottom = self.columns - 1, self.rows - 1
        buffer.x = 0 if x < 0 else last if x > last else x
        buffer.y = 0 if y < 0 else bottom if y > bottom else y

    def _move(self, x: int, y: int) -> None:
        self._restrict()
        # As the page's engine does: with an origin the region's top is added to where the cursor is.
        self._set_cursor(self.shown.x + x, self.shown.y + y)

    def _up(self, count: int, *, to_start: bool = False) -> None:
        room = self.shown.y - self.shown.top
        self._move(0, -min(count, room if room >= 0 else _LARGEST))
        self.shown.x = 0 if to_start else self.shown.x

    def _down(self, count: int, *, to_start: bool = False) -> None:
        room = self.shown.bottom - self.shown.y
        self._move(0, min(count, room if room >= 0 else _LARGEST))
        self.shown.x = 0 if to_start else self.shown.x

    def _right(self, count: int) -> None:
        self._move(count, 0)

    def _column(self, column: int) -> None:
        self._set_cursor(column - 1, self.shown.y)

    def _position(self, numbers: list[int]) -> None:
        self._set_cursor((numbers[1] or 1) - 1 if len(numbers) > 1 else 0, (numbers[0] or 1) - 1)

    def _tab(self, count: int, find: Callable[[int], int]) -> None:
        if self.shown.x < self.columns:
            for _ in range(min(count, self.columns)):
                self.shown.x = find(self.shown.x)

    def _set_tab(self) -> None:
        self.moved_tabs = True
        self.shown.tabs.add(self.shown.x)

    def _clear_tabs(self, numbers: list[int]) -> None:
        self.moved_tabs = True
        if numbers[0] == 0:
            self.shown.tabs.discard(self.shown.x)
        elif numbers[0] == 3:
            self.shown.tabs.clear()

    def _erase_display(self, numbers: list[int]) -> None:
        buffer = self.shown
        self._restrict(self.columns)
        look = erased(self.look)
        match numbers[0]:
            case 0:
                line = buffer.line(buffer.y)
                line.fill(buffer.x, self.columns, look)
                line.wrapped &= buffer.x != 0
                self._blank_rows(buffer.y + 1, self.rows, look)
            case 1:
                line = buffer.line(buffer.y)
                line.fill(0, buffer.x + 1, look)
                line.wrapped = False
                if buffer.x + 1 >= self.columns and buffer.y + 1 < len(buffer.lines):
                    buffer.lines[buffer.y + 1].wrapped = False
                self._blank_rows(0, buffer.y, look)
            case 2:
                self._blank_rows(0, self.rows, look)
            case 3:
                del buffer.lines[: buffer.above]
                buffer.above = 0
            case _:
                pass

    def _blank_rows(self, start: int, end: int, look: Attributes) -> None:
        above = self.shown.above
        for at in range(above + start, above + end):
            self.shown.lines[at] = blank_line(self.columns, look)

    def _erase_line(self, numbers: list[int]) -> None:
        buffer = self.shown
        self._restrict(self.columns)
        line, look = buffer.line(buffer.y), erased(self.look)
        match numbers[0]:
            case 0:
                line.fill(buffer.x, self.columns, look)
                line.wrapped &= buffer.x != 0
            case 1:
                line.fill(0, min(buffer.x + 1, self.columns), look)
            case 2:
                line.fill(0, self.columns, look)
                line.wrapped = False
            case _:
                pass

    def _shift_lines(self, at: int, count: int, look: Attributes) -> None:
        """Blank lines come in there, and the last ones of the region go; with a negative count the other way round."""
        buffer = self.shown
        first, last = buffer.above + at, buffer.above + buffer.bottom
        height = last - first + 1
        lines = buffer.lines[first : last + 1]
        fresh: list[Line] = [blank_line(self.columns, look) for _ in range(min(abs(count), height))]
        moved = fresh + lines[: height - len(fresh)] if count > 0 else lines[len(fresh) :] + fresh
        buffer.lines[first : last + 1] = moved

    def _shift_from_cursor(self, count: int) -> None:
        self._restrict()
        buffer = self.shown
        if buffer.top <= buffer.y <= buffer.bottom:
            self._shift_lines(buffer.y, count, erased(self.look))
            buffer.x = 0

    def _scroll_down(self, numbers: list[int]) -> None:
        if len(numbers) == 1:  # with more numbers it tracks the mouse in an old way
            self._shift_lines(self.shown.top, numbers[0] or 1, PLAIN)

    def _insert_characters(self, count: int) -> None:
        self._restrict()
        self.shown.line(self.shown.y).insert(self.shown.x, count, self.columns, erased(self.look))

    def _delete_characters(self, count: int) -> None:
        self._restrict()
        self.shown.line(self.shown.y).delete(self.shown.x, count, self.columns, erased(self.look))

    def _erase_characters(self, count: int) -> None:
        self._restrict()
        x = self.shown.x
        self.shown.line(self.shown.y).fill(x, min(x + count, self.columns), erased(self.look))

    def _move_columns(self, name: str, numbers: list[int]) -> None:
        buffer, look, count = self.shown, erased(self.look), numbers[0] or 1
        if not buffer.top <= buffer.y <= buffer.bottom:
            return
        at = 0 if name[0] == " " else buffer.x % self.columns
        for y in range(buffer.top, buffer.bottom + 1):
            line = buffer.line(y)
            if name in (" A", "'}"):
                line.insert(at, count, self.columns, look)
            else:
                line.delete(at, count, self.columns, look)
            line.wrapped = False

    def _region(self, numbers: list[int]) -> None:
        top = numbers[0] or 1
        bottom = numbers[1] if len(numbers) > 1 else 0
        if not 0 < bottom <= self.rows:
            bottom = self.rows
        if bottom > top:
            self.shown.top, self.shown.bottom = top - 1, bottom - 1
            self._set_cursor(0, 0)

    def _save(self, _numbers: list[int]) -> None:
        self.shown.saved = self.shown.x, self.shown.y, self.look, self.charset

    def _restore(self, _numbers: list[int]) -> None:
        buffer = self.shown
        buffer.x, buffer.y, look, self.charset = buffer.saved
        self.look = look._replace(link=self.look.link)
        self._restrict()

    def _set_modes(self, numbers: list[int], *, on: bool = True) -> None:
        self.inserts = on if 4 in numbers else self.inserts
        self.feeds_new_lines = on if 20 in numbers else self.feeds_new_lines

    def _set_private(self, number: int, on: bool) -> None:
        self.modes.set_private(number, on)
        match number:
            case 2 if on:
                self.charsets = ["B"] * 4
                self.charset = "B"
            case 6:
                self.origin = on
                self._set_cursor(0, 0)
            case 7:
                self.wraps = on
            case 45:
                self.wraps_back = on
            case 1048:
                (self._save if on else self._restore)([])
            case 47 | 1047 | 1049:
                self._switch(number, on)
            case _:
                pass

    def _switch(self, number: int, on: bool) -> None:
        """To the alternate screen, which is blank, or back."""
        if on and number == 1049:
            self._save([])
        wanted = self.alternate if on else self.normal
        if wanted is not self.shown:
            x, y = self.shown.x, self.shown.y
            self.alternate.clear()
            if on:
                look = erased(self.look)
                self.alternate.lines = [blank_line(self.columns, look) for _ in range(self.rows)]
            self.shown = wanted
            wanted.x, wanted.y = x, y
        if not on and number == 1049:
            self._restore([])

    def _reset_softly(self) -> None:
        buffer = self.shown
        buffer.top, buffer.bottom = 0, self.rows - 1
        buffer.saved = (0, 0, PLAIN, "B")
        self._start_settings()
        self.modes.reset_softly()


def _number(word: str) -> int:
    if not word:
        return 0
    return min(int(word), _LARGEST) if len(word) < _LARGEST_DIGITS else _LARGEST
